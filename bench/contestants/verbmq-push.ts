import type { Address, Connection, Transport } from '@verbmq/core';
import { checkParts, markParts } from '../run/marking.js';
import type { EchoContestant } from './contestant.js';

/** Up to here a message is copied; a longer one is written in a buffer of `allocate`, and leaves from there. */
const COPIED_BYTES = 4000;

/**
 * Messages one way over one of verbmq's transports, with the public interface alone. The server checks each, and speaks
 * only when it is asked, by an empty message, how many there were.
 */
export function verbmqPush(createTransport: () => Transport, listenAddress: () => Address): EchoContestant {
  const transport = createTransport();
  return {
    async listen() {
      const listener = await transport.listen(listenAddress());
      listener.onConnection(countMessages);
      return { address: listener.url };
    },

    async connect(address) {
      const connection = await transport.connect(address);
      const answers = connection.messages();
      let copied = new Uint8Array(0);
      return {
        push(number, bytes) {
          if (bytes > COPIED_BYTES) {
            const lease = connection.allocate(bytes);
            markParts(lease.data, number);
            return connection.send(lease);
          }
          if (copied.length !== bytes) copied = new Uint8Array(bytes);
          markParts(copied, number);
          return connection.trySend(copied) ? undefined : connection.send(copied);
        },
        async confirm() {
          await connection.send(new Uint8Array(0));
          const answer = await answers.next();
          if (answer.done) throw new Error('the server closed the connection');
          const { buffer, byteOffset } = answer.value.data;
          return new DataView(buffer, byteOffset).getUint32(0);
        },
        async close() {
          await connection.close();
        },
      };
    },

    async close() {
      await transport.close();
    },
  };
}

function countMessages(connection: Connection): void {
  let count = 0;
  connection.onMessage(({ data }) => {
    try {
      if (data.length > 0) checkParts(data, count++);
      else answer();
    } catch (error) {
      connection.abort((error as Error).message);
    }
  });
  const answer = (): void => {
    const counted = new Uint8Array(4);
    new DataView(counted.buffer).setUint32(0, count);
    count = 0;
    connection.send(counted).catch((error: Error) => connection.abort(error.message));
  };
}
