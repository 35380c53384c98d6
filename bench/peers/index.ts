/**
 * The peers, by name. Each is set up as its own documentation recommends for speed; its file says what that is. A process
 * loads only the peer that it runs.
 */
import type { PeersModule } from '../peers.js';

export const createPeer: PeersModule['createPeer'] = {
  ws: async () => (await import('./ws.js')).ws(),
  zeromq: async () => (await import('./zeromq.js')).zeromq(),
  nats: async () => (await import('./nats.js')).nats(),
  grpc: async () => (await import('./grpc.js')).grpc(),
  nestjs: async () => (await import('./nestjs.js')).nestjs(),
  moleculer: async () => (await import('./moleculer.js')).moleculer(),
  trpc: async () => (await import('./trpc.js')).trpc(),
  http: async () => (await import('./http.js')).http(),
};
