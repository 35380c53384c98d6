import type { Address, Transport } from '@verbmq/core';
import { client, serve } from '@verbmq/core/rpc';
import type { EchoContestant } from './contestant.js';

const service = { echo: (body: Uint8Array) => body };

/** Calls over one of verbmq's transports, with nothing set. */
export function verbmqRpc(createTransport: () => Transport, listenAddress: () => Address): EchoContestant {
  const transport = createTransport();
  return {
    async listen() {
      const listener = await transport.listen(listenAddress());
      serve(listener, service);
      return { address: listener.url };
    },

    async connect(address, { onError }) {
      const connection = await transport.connect(address);
      let closing = false;
      void connection.closed.then(({ error }) => {
        if (!closing) onError(error ?? new Error('the server closed the connection'));
      });
      const { echo } = client<typeof service>(connection);
      return {
        call: (data) => echo(data),
        async close() {
          closing = true;
          await connection.close();
        },
      };
    },

    async close() {
      await transport.close();
    },
  };
}
