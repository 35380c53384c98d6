import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';
import type { EchoContestant } from '../contestants/contestant.js';

/** As in the benchmark of undici's README: 50 connections, 10 requests on their way on each. */
const CONNECTIONS = 50;
const PIPELINING = 10;

/**
 * HTTP/1.1 over connections that are kept: node:http, and undici's `request`, the fastest way by its README. Pipelining is
 * only for requests that may be repeated, so they are marked as such.
 */
export function http(): EchoContestant {
  let server: Server | undefined;
  return {
    async listen() {
      server = createServer(echo);
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
    },

    async connect(address) {
      const pool = new Pool(address, { connections: CONNECTIONS, pipelining: PIPELINING });
      return {
        async call(data) {
          const { body } = await pool.request({ path: '/', method: 'POST', body: data, idempotent: true });
          return new Uint8Array(await body.arrayBuffer());
        },
        close: () => pool.close(),
      };
    },

    async close() {
      server?.closeAllConnections();
      server?.close();
    },
  };
}

function echo(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => response.end(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
}
