import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';
import type { EchoContestant } from '../contestants/contestant.js';
import { OrderedCalls } from './ordered-calls.js';

/**
 * ws, which knows messages and no calls: their order says which answer belongs to what. Its README, for speed: no compression
 * (`permessage-deflate` is off on the server by default, here on the client as well), and bufferutil, which is installed beside it.
 */
export function ws(): EchoContestant {
  let server: WebSocketServer | undefined;
  return {
    async listen() {
      server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
      server.on('connection', (socket) => {
        socket.on('message', (data: Buffer) => socket.send(data));
      });
      await once(server, 'listening');
      return { address: `ws://127.0.0.1:${(server.address() as AddressInfo).port}` };
    },

    async connect(address) {
      const socket = new WebSocket(address, { perMessageDeflate: false });
      await once(socket, 'open');
      const calls = new OrderedCalls();
      socket.on('error', (error) => calls.failed(error));
      socket.on('close', () => calls.failed(new Error('the server closed the connection')));
      socket.on('message', (data: Buffer) => calls.answered(data));
      return {
        call(data) {
          socket.send(data);
          return calls.answer();
        },
        async close() {
          socket.terminate();
        },
      };
    },

    async close() {
      for (const socket of server?.clients ?? []) socket.terminate();
      server?.close();
    },
  };
}
