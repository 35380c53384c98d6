// A fast transport that takes its time to say whether it can be used: a driver that is slow, or stuck.
import type { ProbeResult } from '@verbmq/core';
import { type AutoOptions, AutoTransport } from '@verbmq/core/auto';
import { MemoryNetwork, MemoryTransport } from '@verbmq/core/memory-transport';
import { expect, onTestFinished, test, vi } from 'vitest';
import { asAuto, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { failure, isPending, turns } from '../support/expectations.js';
import { numbered, numberOf, take } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';

const AVAILABLE: ProbeResult<Record<string, never>> = { available: true, details: {} };
const ABSENT = { available: false, code: 'no-device', reason: 'there is none', remedy: 'buy one' } as const;

/** It is asked, and says what the test says, when the test says it. */
class SlowTransport extends MemoryTransport {
  probes = 0;
  named = false;
  say!: (result: ProbeResult<Record<string, never>>) => void;
  readonly #said = new Promise<ProbeResult<Record<string, never>>>((resolve) => {
    this.say = resolve;
  });

  override get namesHardware(): boolean {
    return this.named;
  }

  override probe(): Promise<ProbeResult<Record<string, never>>> {
    this.probes++;
    return this.#said;
  }
}

/** A client whose fast transport is slow, and a listener that it may connect to. */
async function slowWorld({ client = {}, server = {} }: { client?: AutoOptions; server?: AutoOptions } = {}) {
  const base = new MemoryNetwork();
  const network = new MemoryNetwork();
  const make = (fast: MemoryTransport, own: AutoOptions): AutoTransport => {
    const transport = new AutoTransport({
      ...QUICK,
      ...own,
      base: new MemoryTransport({ network: base }),
      fast,
    });
    onTestFinished(() => transport.close());
    return transport;
  };
  const slow = new SlowTransport({ network });
  const listener = await make(new MemoryTransport({ network }), server).listen({ host: 'here', port: 1 });
  return { slow, url: listener.url, transport: make(slow, client), accepted: nextConnection(listener) };
}

/** Connects while nothing is known, and sends a message that arrives. */
async function connected() {
  const { slow, url, transport, accepted } = await slowWorld();
  const client = asAuto(abortAfterTest(await transport.connect(url)));
  const server = asAuto(abortAfterTest(await accepted));
  await client.send(numbered(1));
  expect(numberOf((await take(server, 1))[0]!)).toBe(1);
  expect(client.path).toEqual({ kind: 'memory', fast: false, flowing: true, reason: 'negotiating' });
  return { slow, client, server };
}

test('holds up neither the end of a transport that was to listen, nor leaves anything listening behind it', async () => {
  const network = new MemoryNetwork();
  const slow = new SlowTransport({ network: new MemoryNetwork() });
  const transport = new AutoTransport({ ...QUICK, base: new MemoryTransport({ network }), fast: slow });
  const listening = failure(transport.listen({ host: 'here', port: 1 }), 'ERR_VERBMQ_CLOSED');
  await turns();
  expect(slow.probes).toBe(1);
  await transport.close();
  await listening;
  const other = new MemoryTransport({ network });
  await failure(other.connect({ host: 'here', port: 1 }), 'ERR_VERBMQ_CONNECT_FAILED');
  await other.close();
});

test('holds up no message, and is used when it says yes', async () => {
  const { slow, client, server } = await connected();
  slow.say(AVAILABLE);
  await Promise.all([onFast(client), onFast(server)]);
});

test('holds up no message, and both sides say why when it says no', async () => {
  const { slow, client, server } = await connected();
  slow.say(ABSENT);
  await pathIs(
    client,
    ({ reason, explanation }) => reason === 'no-device' && explanation === 'there is none',
  );
  await pathIs(server, ({ reason, peerReason }) => reason === 'peer-declined' && peerReason === 'no-device');
});

test('ends the connection when it says that the options name what is not there', async () => {
  const { slow, client } = await connected();
  slow.say({ ...ABSENT, code: 'device-not-found', misnamed: true });
  const { error } = await client.closed;
  expect(error).toMatchObject({ code: 'ERR_VERBMQ_UNAVAILABLE', reason: 'device-not-found' });
});

test.each([AVAILABLE, ABSENT, { ...ABSENT, misnamed: true } as const])(
  'is waited for where its options name hardware, which must be there (%o)',
  async (said) => {
    const { slow, url, transport } = await slowWorld();
    slow.named = true;
    await failure(transport.connect(url, { timeoutMs: 20 }), 'ERR_VERBMQ_CONNECT_TIMEOUT');
    const connecting = transport.connect(url);
    expect(await isPending(connecting)).toBe(true);
    slow.say(said);
    if ('misnamed' in said) await failure(connecting, 'ERR_VERBMQ_UNAVAILABLE');
    else abortAfterTest(await connecting);
  },
);

test('is not asked again while it says nothing', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { slow, url, transport } = await slowWorld();
  const client = asAuto(abortAfterTest(await transport.connect(url)));
  await vi.advanceTimersByTimeAsync(35_000); // of which each attempt has 10,000: handshakeTimeoutMs
  expect(client.path).toMatchObject({ fast: false, flowing: true, reason: 'probe-failed' });
  abortAfterTest(await transport.connect(url));
  expect(slow.probes).toBe(1);
});

test('is waited for where this side requires it, for as long as the caller waits', async () => {
  const { slow, url, transport } = await slowWorld({ client: { policy: 'require-rdma' } });
  await failure(transport.connect(url, { timeoutMs: 20 }), 'ERR_VERBMQ_CONNECT_TIMEOUT');
  const cancelled = new AbortController();
  const attempt = transport.connect(url, { signal: cancelled.signal });
  expect(await isPending(attempt)).toBe(true);
  cancelled.abort();
  await failure(attempt, 'ERR_VERBMQ_CANCELLED');
  const waiting = transport.connect(url);
  slow.say(AVAILABLE);
  expect(asAuto(abortAfterTest(await waiting)).path.fast).toBe(true);
});

test('is waited for where the peer requires it', async () => {
  const { slow, url, transport } = await slowWorld({ server: { policy: 'require-rdma' } });
  const connecting = transport.connect(url);
  expect(await isPending(connecting)).toBe(true);
  slow.say(AVAILABLE);
  expect(asAuto(abortAfterTest(await connecting)).path.fast).toBe(true);
});

test('does not keep a transport from closing', async () => {
  const { url, transport } = await slowWorld({ client: { policy: 'require-rdma' } });
  const attempt = failure(transport.connect(url), 'ERR_VERBMQ_CLOSED');
  await transport.close();
  await attempt;
});
