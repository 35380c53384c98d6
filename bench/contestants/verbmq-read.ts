import type { Address, Connection, Transport } from '@verbmq/core';
import { markParts } from '../run/marking.js';
import type { EchoContestant } from './contestant.js';

/** What the owner exposes to each of its peers: some blocks, each marked with its number. */
const BLOCKS = 16;
const BLOCK_BYTES = 64 * 1024;

/** One-sided reads of a server's memory over one of verbmq's transports, with the public interface alone. */
export function verbmqRead(createTransport: () => Transport, listenAddress: () => Address): EchoContestant {
  const transport = createTransport();
  return {
    async listen() {
      const listener = await transport.listen(listenAddress());
      listener.onConnection((connection) => {
        exposeBlocks(connection).catch((error: Error) => connection.abort(error.message));
      });
      return { address: listener.url };
    },

    async connect(address) {
      const connection = await transport.connect(address);
      let next = 0;
      const memory = connection.attach(await descriptorOf(connection));
      return {
        async read(target) {
          const block = next++ % BLOCKS;
          await memory.read(block * BLOCK_BYTES, target);
          return block;
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

async function exposeBlocks(connection: Connection): Promise<void> {
  const { data, descriptor } = await connection.expose(BLOCKS * BLOCK_BYTES, { read: true });
  for (let block = 0; block < BLOCKS; block++) {
    markParts(data.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES), block);
  }
  await connection.send(new TextEncoder().encode(descriptor));
}

async function descriptorOf(connection: Connection): Promise<string> {
  for await (const message of connection) return new TextDecoder().decode(message.data);
  throw new Error('the server closed the connection');
}
