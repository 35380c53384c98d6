import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';
import type { EchoContestant } from '../contestants/contestant.js';

/**
 * ws, without calls: the order of the messages says which answer belongs to what. Its README, for speed: no compression
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

    async connect(address, { onAnswer, onError }) {
      const socket = new WebSocket(address, { perMessageDeflate: false });
      await once(socket, 'open');
      let closing = false;
      socket.on('error', onError);
      socket.on('close', () => {
        if (!closing) onError(new Error('the server closed the connection'));
      });
      socket.on('message', (data: Buffer) => onAnswer(data));
      return {
        send: (data) => socket.send(data),
        async close() {
          closing = true;
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
