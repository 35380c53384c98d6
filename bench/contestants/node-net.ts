import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { EchoContestant } from './contestant.js';
import { FramedSocket, type WriteMode } from './framed-socket.js';

/** The baseline: an echo over `node:net` alone, as somebody who knows it well writes it by hand. */
export function nodeNet(mode: WriteMode): EchoContestant {
  let server: Server | undefined;
  const sockets = new Set<Socket>();
  return {
    async listen() {
      server = createServer({ noDelay: true }, (socket) => {
        sockets.add(socket);
        socket.on('error', () => socket.destroy());
        socket.on('close', () => sockets.delete(socket));
        const framed = new FramedSocket(socket, mode, (message) => framed.send(message));
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      return { address: String((server.address() as AddressInfo).port) };
    },

    async connect(address, { onAnswer, onError }) {
      const socket = connect({ host: '127.0.0.1', port: Number(address), noDelay: true });
      await once(socket, 'connect');
      let closing = false;
      socket.on('error', onError);
      socket.on('close', () => {
        if (!closing) onError(new Error('the server closed the connection'));
      });
      const framed = new FramedSocket(socket, mode, onAnswer);
      return {
        send: (data) => framed.send(data),
        async close() {
          closing = true;
          socket.destroy();
        },
      };
    },

    async close() {
      server?.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
