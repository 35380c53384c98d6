import type { AutoOptions } from '@verbmq/core/auto';
import { VerbmqTransport } from 'verbmq';
import { onTestFinished } from 'vitest';

/** How often each thing happens. */
export const ROUNDS = Number(process.env.VERBMQ_FAILOVER_ROUNDS ?? 0);

/** A device that is deleted under a test stays away when the test fails: so none is unless that was asked for. */
export const NOT_ASKED = ROUNDS === 0 ? 'VERBMQ_FAILOVER_ROUNDS does not say how often' : undefined;

/** Makes what happens, but not when: `VERBMQ_FAILOVER_SEED` repeats it. */
export const SEED = Number(process.env.VERBMQ_FAILOVER_SEED ?? Date.now() % 1_000_000);

/** Up to some of what RDMA fetches in several pieces; a receive slot has 4 KiB. */
export const MAX_BYTES = 256 * 1024;

/**
 * A guest is slow, and these are for it: a window that is soon repeated; times that leave room for a guest which others keep from
 * running, yet let each cut of several seconds be noticed; and short pauses before RDMA is tried again. On a machine that does nothing
 * else `VERBMQ_FAILOVER_SILENCE_MS` may be the 2,000 of the default.
 */
export const OPTIONS = {
  windowBytes: 1024 * 1024,
  fastTimeoutMs: Number(process.env.VERBMQ_FAILOVER_SILENCE_MS ?? 4000),
  heartbeatIntervalMs: 1000,
  peerTimeoutMs: 4000,
  maxResumeDelayMs: 1000,
  resumeWindowMs: 120_000,
  minFastRetryMs: 50,
  maxFastRetryMs: 500,
} satisfies AutoOptions;

/** A window of messages with the one that crosses its limit; what each message counts beside its bytes is more than its frame's header. */
export const MAX_KEPT_BYTES = OPTIONS.windowBytes + MAX_BYTES;

export function transportForFailover(): VerbmqTransport {
  const transport = new VerbmqTransport(OPTIONS);
  onTestFinished(() => transport.close());
  return transport;
}
