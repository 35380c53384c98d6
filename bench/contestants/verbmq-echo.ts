import type { Address, Connection, Message, Transport } from '@verbmq/core';
import { type EchoContestant, TAKEN_BYTES } from './contestant.js';

/** An echo over one of verbmq's transports, with the public interface alone. */
export function verbmqEcho(createTransport: () => Transport, listenAddress: () => Address): EchoContestant {
  const transport = createTransport();
  return {
    async listen() {
      const listener = await transport.listen(listenAddress());
      listener.onConnection((connection) => {
        connection.onMessage((message) => answer(connection, message));
      });
      return { address: listener.url };
    },

    async connect(address, { onAnswer, onError }) {
      const connection = await transport.connect(address);
      let closing = false;
      void connection.closed.then(({ error }) => {
        if (!closing) onError(error ?? new Error('the server closed the connection'));
      });
      connection.onMessage((message) => onAnswer(message.data));
      return {
        send(data) {
          const isShort = data.byteLength <= TAKEN_BYTES;
          if (isShort && connection.trySend(data)) return;
          connection.send(isShort ? Uint8Array.from(data) : data).catch(onError);
        },
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

function answer(connection: Connection, message: Message): void {
  if (message.byteLength <= TAKEN_BYTES && connection.trySend(message.data)) return;
  message.retain();
  connection.send(message.data).then(
    () => message.release(),
    (error: Error) => connection.abort(error.message),
  );
}
