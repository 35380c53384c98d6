// In how many messages a large body travels: few over sockets, and frames as short as all others in memory that a transport registers.
import { expect, test } from 'vitest';
import { memorySetUp } from '../support/transports/memory.js';
import { tcpSetUp } from '../support/transports/tcp.js';
import { served } from './support.js';

const MIB = 1024 * 1024;

test.each([
  ['TCP', tcpSetUp(), 4],
  ['registered memory', memorySetUp(), 17],
])('1 MiB over %s', async (_, setUp, pieces) => {
  const { api, near, far } = await served(setUp, { echo: (body: Uint8Array) => body });
  await api.echo(new Uint8Array(1));
  const messages = (): number[] => [near, far].map((connection) => connection.stats().messagesSent);
  const before = messages();
  await api.echo(new Uint8Array(MIB));
  expect(messages().map((count, side) => count - before[side]!)).toEqual([1 + pieces, 1 + pieces]);
});
