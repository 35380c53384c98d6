import { RdmaTransport } from '@verbmq/native';
import { findRdmaHost } from './contestants/rdma-host.js';
import { TOOL_CONTESTANT_NAMES } from './perftest/index.js';
import { perftestProblem } from './perftest/send-latency.js';
import type { ContestantName } from './scenarios.js';
import type { Unavailable } from './unavailable.js';

const RDMA_CONTESTANTS = [
  'rdma-event',
  'rdma-adaptive',
  'rdma-busy',
  'auto-rdma',
  'rpc-rdma',
  'push-rdma',
  'read-rdma',
] as const;

/** Why contestants cannot be measured here; those that are not in the map can. */
export async function unavailableContestants(): Promise<Map<ContestantName, Unavailable>> {
  const missing = new Map<ContestantName, Unavailable>();
  const rdma = await rdmaProblem();
  if (rdma !== undefined) {
    for (const name of RDMA_CONTESTANTS) missing.set(name, rdma);
  }
  const perftest = rdma ?? perftestProblem();
  if (perftest !== undefined) {
    for (const name of TOOL_CONTESTANT_NAMES) missing.set(name, perftest);
  }
  return missing;
}

async function rdmaProblem(): Promise<Unavailable | undefined> {
  await using transport = new RdmaTransport();
  const found = await transport.probe();
  if (!found.available) return { reason: found.reason, remedy: found.remedy };
  if ((await findRdmaHost()) !== undefined) return undefined;
  return {
    reason: 'RDMA cannot listen on any address of this machine',
    remedy: 'name the address of an RDMA device in VERBMQ_RDMA_ADDRESS',
  };
}
