import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Polling, RdmaTransport } from '@verbmq/native';
import { TcpTransport } from '@verbmq/tcp-fallback';
import type { EchoContestant } from './contestant.js';
import { nodeNet } from './node-net.js';
import { rdmaHost } from './rdma-host.js';
import { verbmqEcho } from './verbmq-echo.js';

/** Makes the contestants that are Node programs, by name. */
export const NODE_CONTESTANTS = {
  net: () => nodeNet('each'),
  'net-gathered': () => nodeNet('gathered'),
  tcp: () =>
    verbmqEcho(
      () => new TcpTransport(),
      () => 'tcp://127.0.0.1:0',
    ),
  unix: () =>
    verbmqEcho(
      () => new TcpTransport(),
      () => ({ path: join(tmpdir(), `verbmq-bench-${process.pid}.sock`) }),
    ),
  'rdma-event': () => rdmaEcho('event'),
  'rdma-adaptive': () => rdmaEcho('adaptive'),
  'rdma-busy': () => rdmaEcho('busy'),
} satisfies Record<string, () => EchoContestant>;

export type NodeContestantName = keyof typeof NODE_CONTESTANTS;

export function isNodeContestant(name: string): name is NodeContestantName {
  return name in NODE_CONTESTANTS;
}

function rdmaEcho(polling: Polling): EchoContestant {
  return verbmqEcho(
    () => new RdmaTransport({ polling }),
    () => ({ host: rdmaHost(), port: 0 }),
  );
}
