import type { Connection, VerbmqError } from '@verbmq/core';
import { decodeDescriptor, encodeDescriptor } from '@verbmq/core/transport-kit';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { describe, expect, it, onTestFinished } from 'vitest';
import { expectBytes, pattern } from '../../../test/support/messages.js';
import { nextConnection } from '../../../test/support/pair.js';
import { AbortCode, FrameType, smallFrame } from '../src/frame.js';
import { requestHead } from '../src/one-sided-frames.js';
import { bufferBytes, endOf, rawPair } from './raw-peer.js';

const KIB = 1024;
const MIB = 1024 * KIB;

const RIGHTS = { read: true, write: true, atomic: true };

async function pair(options = {}): Promise<{ client: Connection; server: Connection }> {
  const transport = new TcpTransport(options);
  const listener = await transport.listen('tcp://127.0.0.1:0');
  const accepted = nextConnection(listener);
  const client = await transport.connect(listener.url);
  const server = await accepted;
  onTestFinished(async () => {
    client.abort('the test is over');
    await transport.close();
  });
  return { client, server };
}

/** A request of a bare peer for the memory behind a descriptor. */
function request(type: number, descriptor: string, length: number, rest = new Uint8Array(0)): Buffer {
  const { key } = decodeDescriptor(descriptor);
  return Buffer.concat([requestHead(type, key, 0n, length, [], rest.byteLength), rest]);
}

/** The descriptor of memory that a bare peer pretends to have. */
function pretended(bytes: number): string {
  return encodeDescriptor({ address: 0n, byteLength: bytes, access: RIGHTS, key: new Uint8Array(16) });
}

describe('one-sided operations', () => {
  it('carry long transfers in pieces, several at a time, messages between', async () => {
    const { client, server } = await pair({ oneSidedWindowBytes: 64 * KIB });
    const exposed = await server.expose(3 * MIB, RIGHTS);
    const memory = client.attach(exposed.descriptor);
    const content = pattern(3 * MIB, 5);
    let messages = 0;
    server.onMessage(() => messages++);
    const half = 1.5 * MIB;
    const writes = [
      memory.write(0, content.subarray(0, half)),
      client.send(pattern(MIB)),
      memory.write(half, content.subarray(half)),
      client.send(pattern(10)),
    ];
    await Promise.all(writes);
    expectBytes(exposed.data, content);
    const [all, part] = await Promise.all([memory.read(0, 3 * MIB), memory.read(MIB + 1, 1234)]);
    expectBytes(all, content);
    expectBytes(part, content.subarray(MIB + 1, MIB + 1 + 1234));
    expect(messages).toBe(2);
  });

  it('answer each of many at once with its own result', async () => {
    const { client, server } = await pair();
    const exposed = await server.expose(64, RIGHTS);
    const memory = client.attach(exposed.descriptor);
    const before = await Promise.all(Array.from({ length: 1000 }, () => memory.fetchAdd(8, 3n)));
    expect(before).toEqual(Array.from({ length: 1000 }, (_, i) => BigInt(i * 3)));
    expect(await memory.compareAndSwap(8, 3000n, 2n ** 64n - 1n)).toBe(3000n);
    expect(await memory.fetchAdd(8, 2n)).toBe(2n ** 64n - 1n);
    expect(new BigUint64Array(exposed.data.buffer)[1]).toBe(1n);
  });

  it('read and write nothing where nothing is asked for', async () => {
    const { client, server } = await pair();
    const memory = client.attach((await server.expose(8, RIGHTS)).descriptor);
    expect((await memory.read(8, 0)).byteLength).toBe(0);
    await memory.write(8, new Uint8Array(0));
  });

  it('end both sides with ERR_VERBMQ_REMOTE_ACCESS when one is refused', async () => {
    const { client, server } = await pair();
    const exposed = await server.expose(64, RIGHTS);
    const memory = client.attach(exposed.descriptor);
    await exposed.revoke();
    await expect(memory.read(0, 8)).rejects.toMatchObject({ code: 'ERR_VERBMQ_REMOTE_ACCESS' });
    expect((await endOf(client)).code).toBe('ERR_VERBMQ_REMOTE_ACCESS');
    expect((await endOf(server)).code).toBe('ERR_VERBMQ_REMOTE_ACCESS');
  });

  it.each([
    ['a key that was made up', 16, 0n],
    ['a key of another length', 40, 0n],
    ['an address that was made up', undefined, 2n ** 63n],
  ])('are refused with %s', async (_name, keyBytes, address) => {
    const { client, server } = await pair();
    const fields = decodeDescriptor((await server.expose(64, RIGHTS)).descriptor);
    const key = keyBytes === undefined ? fields.key : new Uint8Array(keyBytes);
    const memory = client.attach(encodeDescriptor({ ...fields, key, address }));
    await expect(memory.write(0, new Uint8Array(8))).rejects.toMatchObject({
      code: 'ERR_VERBMQ_REMOTE_ACCESS',
    });
    expect((await endOf(server)).code).toBe('ERR_VERBMQ_REMOTE_ACCESS');
  });

  it('tell a bare peer by the code of the ABORT frame', async () => {
    const { peer, connection } = await rawPair();
    const exposed = await connection.expose(64, { read: true });
    peer.write(request(FrameType.WRITE, exposed.descriptor, 4, new Uint8Array(4)));
    const { code, reason } = await peer.aborted();
    expect(code).toBe(AbortCode.REMOTE_ACCESS);
    expect(reason).toMatch(/write was not granted/);
  });

  it('leave the outcome of writes and atomics open when the connection dies, and not that of reads', async () => {
    const { peer, connection } = await rawPair();
    const memory = connection.attach(pretended(1024));
    const outcomes = [memory.read(0, 8), memory.write(0, new Uint8Array(8)), memory.fetchAdd(0, 1n)].map(
      (operation) => operation.catch((error: VerbmqError) => error),
    );
    await peer.frameOf(FrameType.FETCH_ADD);
    peer.socket.resetAndDestroy();
    const errors = (await Promise.all(outcomes)) as VerbmqError[];
    expect(errors.map(({ code, outcome }) => [code, outcome])).toEqual([
      ['ERR_VERBMQ_CONNECTION_LOST', undefined],
      ['ERR_VERBMQ_CONNECTION_LOST', 'unknown'],
      ['ERR_VERBMQ_CONNECTION_LOST', 'unknown'],
    ]);
  });

  it('that were never asked for have certainly not taken place', async () => {
    const { peer, connection } = await rawPair({}, { oneSidedWindowBytes: 64 * KIB });
    const memory = connection.attach(pretended(MIB));
    void memory.read(0, MIB).catch(() => {}); // takes all of the owner's window
    const write = memory.write(0, new Uint8Array(8)).catch((error: VerbmqError) => error);
    await peer.frameOf(FrameType.READ);
    peer.socket.resetAndDestroy();
    expect(((await write) as VerbmqError).outcome).toBeUndefined();
  });

  it('keep to what the owner allows in progress', async () => {
    const { peer, connection } = await rawPair({}, { oneSidedWindowBytes: 64 * KIB });
    const memory = connection.attach(pretended(MIB));
    const read = memory.read(0, 100 * KIB);
    let asked = 0;
    for (let i = 0; i < 2; i++) asked += (await peer.frameOf(FrameType.READ)).payload.readUInt32LE(0) + 128;
    expect(asked).toBeLessThanOrEqual(64 * KIB);
    // No third request comes before an answer has gone: only the answer to this ping does.
    peer.write(smallFrame(FrameType.PING));
    expect((await peer.frame()).type).toBe(FrameType.PONG);
    peer.write(smallFrame(FrameType.READ_ANSWER, new Uint8Array(asked / 2 - 128)));
    await peer.frameOf(FrameType.READ);
    connection.abort();
    await expect(read).rejects.toMatchObject({ code: 'ERR_VERBMQ_ABORTED' });
  });

  it('end a connection whose peer asks for more than it may, without reading the answers', async () => {
    const { peer, connection } = await rawPair();
    const exposed = await connection.expose(256 * KIB, RIGHTS);
    const read = request(FrameType.READ, exposed.descriptor, 256 * KIB);
    peer.socket.pause();
    const before = bufferBytes();
    for (let i = 0; i < 200; i++) peer.write(read);
    const error = await endOf(connection);
    expect(error.code).toBe('ERR_VERBMQ_PROTOCOL');
    expect(error.message).toMatch(/more one-sided work in progress/);
    expect(bufferBytes() - before).toBeLessThan(16 * MIB);
  });

  it.each([
    ['a READ that brings data', FrameType.READ, 4, new Uint8Array(4), /surplus/],
    ['a READ that is too long', FrameType.READ, MIB + 8, new Uint8Array(0), /1048576/],
    ['a WRITE that brings less than it says', FrameType.WRITE, 8, new Uint8Array(4), /announces 8 bytes/],
    ['an atomic of another length', FrameType.FETCH_ADD, 4, new Uint8Array(8), /malformed/],
    [
      'an atomic with too few operands',
      FrameType.COMPARE_AND_SWAP,
      8,
      new Uint8Array(16).subarray(8),
      /malformed/,
    ],
  ])('refuse %s as a violation', async (_name, type, length, rest, words) => {
    const { peer, connection } = await rawPair();
    const exposed = await connection.expose(MIB, RIGHTS);
    peer.write(request(type, exposed.descriptor, length, rest));
    const error = await endOf(connection);
    expect(error.code).toBe('ERR_VERBMQ_PROTOCOL');
    expect(error.message).toMatch(words);
  });

  it('refuse answers of another length or kind than was asked for', async () => {
    const { peer, connection } = await rawPair();
    const memory = connection.attach(pretended(1024));
    const read = memory.read(0, 8).catch((error: VerbmqError) => error);
    await peer.frameOf(FrameType.READ);
    peer.write(smallFrame(FrameType.READ_ANSWER, new Uint8Array(9)));
    expect(await read).toMatchObject({ code: 'ERR_VERBMQ_PROTOCOL' });
  });
});
