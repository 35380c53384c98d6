// What only a real device can show of a key to registered memory: what it opens, and for whom. A peer that drives its device by
// itself is bounded by this alone.
import { describe, expect, test } from 'vitest';
import { rdmaAddresses } from '../../../test/support/transports/rdma.js';
import { EventKind, type MemoryRegistration, MemoryUse, SubmissionKind } from '../src/binding.js';
import { type RawEnd, rawPair } from './raw-ends.js';

const device = { host: rdmaAddresses().listen };
const native = rdmaAddresses().atomics === 'native';
const BYTES = 5000;

interface Memory extends MemoryRegistration {
  readonly data: Uint8Array<ArrayBuffer>;
}

function register(end: RawEnd, uses: number, fill: number): Memory {
  const data = new Uint8Array(BYTES).fill(fill);
  return { data, ...end.engine.registerMemory(end.handle, data.buffer, 0, BYTES, uses) };
}

const { read, write, fetchAdd } = SubmissionKind;
type Kind = typeof read | typeof write | typeof fetchAdd;

function operate(end: RawEnd, kind: Kind, local: Memory, remote: Memory, at = 0, bytes = 8): void {
  const { rkey, address } = remote;
  const remoteAddress = address + BigInt(at);
  const { region } = local;
  end.engine.submitOperation(end.handle, {
    ...{ kind, token: 1, region, offset: 0, bytes, remoteAddress, rkey, operand: 1n },
  });
}

/**
 * The operation ends the connection of who tried it, and neither side's memory has changed. With iWARP a write is complete when TCP
 * has the data: only a read behind it would tell.
 */
async function expectRefusal(client: RawEnd, kind: Kind, local: Memory, remote: Memory): Promise<void> {
  await client.saw(EventKind.closed);
  // An iWARP device is only told that the connection has ended.
  expect(client.failure?.reason).toBe(native ? 'remote-access' : 'lost');
  const done = client.events.some(([event]) => event === EventKind.operationDone);
  if (native || kind !== write) expect(done).toBe(false);
  expect(local.data.every((byte) => byte === 1)).toBe(true);
  expect(remote.data.every((byte) => byte === 2)).toBe(true);
}

const { remoteRead, remoteWrite, remoteAtomic, sink } = MemoryUse;

describe('a key of a real device', () => {
  test('opens what it is for', async () => {
    const { client, server } = await rawPair(device);
    const local = register(client, sink, 1);
    operate(client, write, local, register(server, remoteWrite, 2));
    operate(client, read, local, register(server, remoteRead, 3));
    if (native) operate(client, fetchAdd, local, register(server, remoteAtomic, 4));
    await client.saw(EventKind.operationDone, native ? 3 : 2);
    expect(local.data[0]).toBe(native ? 4 : 3);
  });

  test.each<[string, Kind, number]>([
    ['reading does not open it for writing', write, remoteRead],
    // Soft-iWARP looks whose memory is read, and where it ends, and not whether it may be read.
    ...(native
      ? ([
          ['writing does not open it for reading', read, remoteWrite],
          ['reading and writing does not open it for atomic operations', fetchAdd, remoteRead | remoteWrite],
          ['atomic operations does not open it for reading', read, remoteAtomic],
          ['atomic operations does not open it for writing', write, remoteAtomic],
        ] as [string, Kind, number][])
      : []),
  ])('for %s', async (_, kind, uses) => {
    const { client, server } = await rawPair(device);
    const [local, remote] = [register(client, sink, 1), register(server, uses, 2)];
    operate(client, kind, local, remote);
    await expectRefusal(client, kind, local, remote);
  });

  test.each<[string, Kind]>([
    ['reading', read],
    ['writing', write],
  ])('of one connection opens nothing on another (%s)', async (_, kind) => {
    const [{ client }, other] = [await rawPair(device), await rawPair(device)];
    const local = register(client, sink, 1);
    const remote = register(other.server, remoteRead | remoteWrite, 2);
    operate(client, kind, local, remote);
    await expectRefusal(client, kind, local, remote);
    operate(other.client, kind, register(other.client, sink, 1), remote);
    await other.client.saw(EventKind.operationDone);
  });

  test.each<[string, Kind]>([
    ['reading', read],
    ['writing', write],
  ])('opens not one byte more than its memory (%s)', async (_, kind) => {
    const { client, server } = await rawPair(device);
    const [local, remote] = [register(client, sink, 1), register(server, remoteRead | remoteWrite, 2)];
    operate(client, kind, local, remote, BYTES - 7);
    await expectRefusal(client, kind, local, remote);
  });
});
