/**
 * What people use today, to compare rpc with. The peers stand in a project of their own, bench/peers, with dependencies of its
 * own: whoever does not ask for them (`--peers`) does not install them.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { EchoContestant } from './contestants/contestant.js';
import type { Unavailable } from './unavailable.js';

export const PEERS = {
  ws: 'ws: WebSocket messages as calls',
  zeromq: 'zeromq.js: DEALER and ROUTER, messages as calls',
  nats: 'nats: request and reply through a nats-server',
  grpc: '@grpc/grpc-js: unary calls',
  nestjs: '@nestjs/microservices over TCP',
  moleculer: 'moleculer 0.14 over TCP',
  trpc: 'tRPC over WebSocket',
  http: 'node:http with keep-alive, called by undici',
} as const;
export type PeerName = keyof typeof PEERS;

export const PEER_NAMES = Object.keys(PEERS) as PeerName[];

export function isPeer(name: string): name is PeerName {
  return name in PEERS;
}

/** What bench/peers offers. */
export interface PeersModule {
  readonly createPeer: Record<PeerName, () => EchoContestant | Promise<EchoContestant>>;
}

const MODULE = new URL('../peers/dist/index.js', import.meta.url);
const BOOTSTRAP = fileURLToPath(new URL('../../scripts/bootstrap.mjs', import.meta.url));

/** @throws when {@link installPeers} has not been called on this machine. */
export async function loadPeer(name: PeerName): Promise<EchoContestant> {
  const { createPeer } = (await import(MODULE.href)) as PeersModule;
  return await createPeer[name]();
}

/** Installs the peers' packages and compiles bench/peers. Takes seconds when nothing changed. @throws Error */
export function installPeers(): void {
  const { status } = spawnSync(process.execPath, [BOOTSTRAP, '--peers'], { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error('the peers could not be installed');
}

/** Why a peer cannot be measured here; those that are not in the map can. */
export function unavailablePeers(): Map<PeerName, Unavailable> {
  const missing = new Map<PeerName, Unavailable>();
  if (spawnSync('nats-server', ['--version']).status !== 0) {
    const remedy = 'as root: apt-get install -y --no-install-recommends nats-server';
    missing.set('nats', { reason: 'nats-server is not installed', remedy });
  }
  return missing;
}
