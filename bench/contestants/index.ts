import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Address } from '@verbmq/core';
import { type Polling, RdmaTransport } from '@verbmq/native';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { type PathPolicy, VerbmqTransport } from 'verbmq';
import { isPeer, loadPeer, type PeerName } from '../peers.js';
import type { EchoContestant } from './contestant.js';
import { nodeNet } from './node-net.js';
import { rdmaHost } from './rdma-host.js';
import { verbmqEcho } from './verbmq-echo.js';
import { verbmqPush } from './verbmq-push.js';
import { verbmqRead } from './verbmq-read.js';
import { verbmqRpc } from './verbmq-rpc.js';

/** Makes the contestants that are Node programs of this project, by name. */
const OWN_CONTESTANTS = {
  net: () => nodeNet('each'),
  'net-gathered': () => nodeNet('gathered'),
  'net-gathered-1000': () => nodeNet('gathered'),
  tcp: () => verbmqEcho(tcp, tcpAddress),
  'tcp-1000': () => verbmqEcho(tcp, tcpAddress),
  unix: () => verbmqEcho(tcp, unixAddress),
  auto: () => verbmqEcho(auto('tcp'), autoAddress),
  'auto-rdma': () => verbmqEcho(auto('require-rdma'), rdmaAddress),
  'rdma-event': () => verbmqEcho(rdma('event'), rdmaAddress),
  'rdma-adaptive': () => verbmqEcho(rdma('adaptive'), rdmaAddress),
  'rdma-busy': () => verbmqEcho(rdma('busy'), rdmaAddress),
  'rpc-tcp': () => verbmqRpc(tcp, tcpAddress),
  'rpc-unix': () => verbmqRpc(tcp, unixAddress),
  'rpc-rdma': () => verbmqRpc(rdma('adaptive'), rdmaAddress),
  'push-tcp': () => verbmqPush(tcp, tcpAddress),
  'push-rdma': () => verbmqPush(rdma('adaptive'), rdmaAddress),
  'read-tcp': () => verbmqRead(tcp, tcpAddress),
  'read-rdma': () => verbmqRead(rdma('adaptive'), rdmaAddress),
} satisfies Record<string, () => EchoContestant>;

export type NodeContestantName = keyof typeof OWN_CONTESTANTS | PeerName;

export function isNodeContestant(name: string): name is NodeContestantName {
  return name in OWN_CONTESTANTS || isPeer(name);
}

/** @throws when it is a peer and the peers are not installed: see peers.ts. */
export async function createContestant(name: NodeContestantName): Promise<EchoContestant> {
  return isPeer(name) ? await loadPeer(name) : OWN_CONTESTANTS[name]();
}

function tcp(): TcpTransport {
  return new TcpTransport();
}

/** Which path it takes is certain: one that requires RDMA has it when `connect` resolves. */
function auto(policy: PathPolicy): () => VerbmqTransport {
  return () => new VerbmqTransport({ policy });
}

function autoAddress(): Address {
  return 'verbmq://127.0.0.1:0';
}

function tcpAddress(): Address {
  return 'tcp://127.0.0.1:0';
}

function unixAddress(): Address {
  return { path: join(tmpdir(), `verbmq-bench-${process.pid}.sock`) };
}

function rdma(polling: Polling): () => RdmaTransport {
  return () => new RdmaTransport({ polling });
}

function rdmaAddress(): Address {
  return { host: rdmaHost(), port: 0 };
}
