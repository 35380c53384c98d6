import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createTRPCClient, createWSClient, wsLink } from '@trpc/client';
import { initTRPC } from '@trpc/server';
import { applyWSSHandler } from '@trpc/server/adapters/ws';
import { WebSocket, WebSocketServer } from 'ws';
import type { EchoContestant } from '../contestants/contestant.js';
import { fromText, toText } from './text.js';

const t = initTRPC.create();
const router = t.router({
  echo: t.procedure.input((text: unknown) => text as string).query(({ input }) => input),
});

/**
 * tRPC over WebSocket, which its documentation recommends where many calls are made; on ws, set up as the contestant of that
 * name. Its wire is JSON; bytes travel as text. The input is not validated.
 */
export function trpc(): EchoContestant {
  let server: WebSocketServer | undefined;
  return {
    async listen() {
      server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
      applyWSSHandler({ wss: server, router });
      await once(server, 'listening');
      return { address: `ws://127.0.0.1:${(server.address() as AddressInfo).port}` };
    },

    async connect(address) {
      const socket = createWSClient({ url: address, WebSocket: WebSocket as never });
      const { echo } = createTRPCClient<typeof router>({ links: [wsLink({ client: socket })] });
      return {
        call: async (data) => fromText(await echo.query(toText(data))),
        close: () => socket.close(),
      };
    },

    async close() {
      for (const socket of server?.clients ?? []) socket.terminate();
      server?.close();
    },
  };
}
