import type { Connection, Listener, RemoteMemory, Transport } from '@verbmq/core';
import { expect, test } from 'vitest';
import { testNeeding } from '../../support/conformance-test.js';
import { type Outcome, outcomeOf } from '../../support/expectations.js';
import { numbered, numberOf, take } from '../../support/messages.js';
import { connectPair, listenForTest, transportForTest } from '../../support/pair.js';
import type { SetUp } from '../../support/set-up.js';
import { allAccess, share } from './one-sided.js';

/** What programs without types pass: the calls below are wrong on purpose. */
// biome-ignore lint/suspicious/noExplicitAny: see above
type Wrong = any;

type Rows<T> = [mistake: string, call: (subject: T) => unknown, outcome: Outcome][];

const INVALID = 'ERR_VERBMQ_INVALID_ADDRESS';

const ADDRESSES: [mistake: string, address: Wrong, outcome: Outcome][] = [
  ['undefined', undefined, TypeError],
  ['null', null, TypeError],
  ['a number', 7000, TypeError],
  ['an empty object', {}, TypeError],
  ['no port', { host: '127.0.0.1' }, TypeError],
  ['an empty host', { host: '', port: 1 }, TypeError],
  ['a port in a string', { host: '127.0.0.1', port: '7000' }, TypeError],
  ['a negative port', { host: '127.0.0.1', port: -1 }, RangeError],
  ['a port beyond 65,535', { host: '127.0.0.1', port: 65_536 }, RangeError],
  ['half a port', { host: '127.0.0.1', port: 1.5 }, RangeError],
  ['an empty path', { path: '' }, TypeError],
  ['a path that is no string', { path: 5 }, TypeError],
  ['an empty string', '', INVALID],
  ['a host alone', 'localhost', INVALID],
  ['an unknown scheme', 'gopher://localhost:1', INVALID],
];

const OPTIONS: [option: string, value: Wrong, outcome: Outcome][] = [
  ['maxMessageBytes', 0, RangeError],
  ['maxMessageBytes', 2 ** 31, RangeError],
  ['maxMessageBytes', 1.5, RangeError],
  ['maxMessageBytes', '1000', TypeError],
  ['highWaterMarkBytes', 0, RangeError],
  ['highWaterMarkBytes', Number.NaN, RangeError],
  ['maxQueuedBytes', -1, RangeError],
  ['heartbeatIntervalMs', -1, RangeError],
  ['heartbeatIntervalMs', 2 ** 31, RangeError],
  ['peerTimeoutMs', 0, RangeError],
  ['closeTimeoutMs', Number.POSITIVE_INFINITY, RangeError],
  ['handshakeTimeoutMs', null, TypeError],
  ['debugLeases', 'yes', TypeError],
  ['logger', {}, TypeError],
  ['logger', 5, TypeError],
];

const CONNECTION: Rows<Connection> = [
  ['send nothing', (client) => client.send(undefined as Wrong), TypeError],
  ['send a string', (client) => client.send('text' as Wrong), TypeError],
  ['send an ArrayBuffer', (client) => client.send(new ArrayBuffer(4) as Wrong), TypeError],
  ['send 16-bit numbers', (client) => client.send(new Uint16Array(4) as Wrong), TypeError],
  ['send an object', (client) => client.send({ byteLength: 4 } as Wrong), TypeError],
  ['trySend a string', (client) => client.trySend('text' as Wrong), TypeError],
  ['allocate nothing', (client) => client.allocate(undefined as Wrong), TypeError],
  ['allocate a string', (client) => client.allocate('10' as Wrong), TypeError],
  ['allocate less than nothing', (client) => client.allocate(-1), RangeError],
  ['allocate a fraction', (client) => client.allocate(1.5), RangeError],
  ['allocate NaN', (client) => client.allocate(Number.NaN), RangeError],
  ['allocate too much', (client) => client.allocate(2 ** 40), 'ERR_VERBMQ_MESSAGE_TOO_LARGE'],
  ['listen with no handler', (client) => client.onMessage(undefined as Wrong), TypeError],
  ['listen with an object', (client) => client.onMessage({} as Wrong), TypeError],
  ['abort with an error', (client) => client.abort(new Error('why') as Wrong), TypeError],
  ['expose nothing', (client) => client.expose(0, { read: true }), RangeError],
  ['expose less than nothing', (client) => client.expose(-1, { read: true }), RangeError],
  ['expose a string', (client) => client.expose('10' as Wrong, { read: true }), TypeError],
  ['expose an empty array', (client) => client.expose(new Uint8Array(0), { read: true }), RangeError],
  [
    'expose memory that threads share',
    (client) => client.expose(new Uint8Array(new SharedArrayBuffer(8)), { read: true }),
    TypeError,
  ],
  [
    'expose memory for atomics that is not aligned',
    (client) => client.expose(new Uint8Array(16).subarray(4), { atomic: true }),
    RangeError,
  ],
  ['expose for no purpose', (client) => client.expose(10, {}), TypeError],
  ['expose without access', (client) => client.expose(10, undefined as Wrong), TypeError],
  ['expose for a string', (client) => client.expose(10, { read: 'yes' } as Wrong), TypeError],
  ['attach nothing', (client) => client.attach(undefined as Wrong), TypeError],
  ['attach bytes', (client) => client.attach(Buffer.from('x') as Wrong), TypeError],
];

const REMOTE: Rows<RemoteMemory> = [
  ['read no length', (remote) => remote.read(0, undefined as Wrong), TypeError],
  ['read a string', (remote) => remote.read(0, '8' as Wrong), TypeError],
  ['read into a DataView', (remote) => remote.read(0, new DataView(new ArrayBuffer(8)) as Wrong), TypeError],
  ['read from nowhere', (remote) => remote.read(undefined as Wrong, 8), TypeError],
  ['read from a BigInt', (remote) => remote.read(0n as Wrong, 8), TypeError],
  ['write a string', (remote) => remote.write(0, 'text' as Wrong), TypeError],
  ['write nothing', (remote) => remote.write(0, undefined as Wrong), TypeError],
  ['write from nowhere', (remote) => remote.write('0' as Wrong, new Uint8Array(1)), TypeError],
  ['read a vector of nothing', (remote) => remote.readv(undefined as Wrong), TypeError],
  ['read a set of pieces', (remote) => remote.readv(new Set() as Wrong), TypeError],
  ['read a piece that is null', (remote) => remote.readv([null] as Wrong), TypeError],
  ['read a piece that is a number', (remote) => remote.readv([8] as Wrong), TypeError],
  ['read a piece without a target', (remote) => remote.readv([{ offset: 0 }] as Wrong), TypeError],
  ['read a piece from nowhere', (remote) => remote.readv([{ target: 8 }] as Wrong), TypeError],
  ['write a vector of nothing', (remote) => remote.writev(undefined as Wrong), TypeError],
  ['write arrays', (remote) => remote.writev([new Uint8Array(8)] as Wrong), TypeError],
  ['write a piece without data', (remote) => remote.writev([{ offset: 0 }] as Wrong), TypeError],
  ['write a piece to nowhere', (remote) => remote.writev([{ data: new Uint8Array(1) }] as Wrong), TypeError],
  ['write a hole', (remote) => remote.writev(new Array(1) as Wrong), TypeError],
  ['add a number', (remote) => remote.fetchAdd(0, 1 as Wrong), TypeError],
  ['add nothing', (remote) => remote.fetchAdd(0, undefined as Wrong), TypeError],
  ['expect a number', (remote) => remote.compareAndSwap(0, 0 as Wrong, 1n), TypeError],
  ['swap in a number', (remote) => remote.compareAndSwap(0, 0n, 1 as Wrong), TypeError],
];

const LISTENER: Rows<Listener> = [
  ['no handler', (listener) => listener.onConnection(undefined as Wrong), TypeError],
  ['a handler that is an object', (listener) => listener.onConnection({} as Wrong), TypeError],
];

const CONNECT_OPTIONS: [option: string, options: Wrong, outcome: Outcome][] = [
  ['timeoutMs', { timeoutMs: 0 }, RangeError],
  ['timeoutMs', { timeoutMs: 2 ** 31 }, RangeError],
  ['timeoutMs', { timeoutMs: '1000' }, TypeError],
  ['signal', { signal: {} }, TypeError],
  ['signal', { signal: null }, TypeError],
];

async function check<T>(rows: Rows<T>, subject: T): Promise<void> {
  for (const [mistake, call, outcome] of rows) {
    expect(await outcomeOf(() => call(subject)), mistake).toBe(outcome);
  }
}

export function badInput(setUp: SetUp): void {
  test('wrong addresses are refused alike by listen and connect', async () => {
    const transport: Transport = transportForTest(setUp);
    for (const [mistake, address, outcome] of ADDRESSES) {
      expect(await outcomeOf(() => transport.listen(address)), `listen: ${mistake}`).toBe(outcome);
      expect(await outcomeOf(() => transport.connect(address)), `connect: ${mistake}`).toBe(outcome);
    }
    expect(transport.stats()).toMatchObject({ listeners: 0, connections: 0 });
  });

  test('wrong options are refused alike by the transport, listen and connect', async () => {
    const transport = transportForTest(setUp);
    for (const [option, value, outcome] of OPTIONS) {
      const options = { [option]: value } as Wrong;
      const what = `${option}: ${String(value)}`;
      expect(await outcomeOf(() => setUp.createTransport(options)), what).toBe(outcome);
      expect(await outcomeOf(() => transport.listen(setUp.listenAddress(), options)), what).toBe(outcome);
      expect(await outcomeOf(() => transport.connect(setUp.deadAddress(), options)), what).toBe(outcome);
    }
    for (const [option, options, outcome] of CONNECT_OPTIONS) {
      expect(await outcomeOf(() => transport.connect(setUp.deadAddress(), options)), option).toBe(outcome);
    }
  });

  test('the error of a wrong option names it', async () => {
    expect(() => setUp.createTransport({ peerTimeoutMs: -5 })).toThrow(/peerTimeoutMs.*-5/);
  });

  test('wrong arguments to a connection are refused, and it goes on', async () => {
    const { client, server } = await connectPair(setUp);
    await check(CONNECTION, client);
    expect(client.state).toBe('open');
    expect(client.stats()).toMatchObject({ messagesSent: 0, sendsWaiting: 0 });
    await client.send(numbered(1));
    expect((await take(server, 1)).map(numberOf)).toEqual([1]);
  });

  testNeeding('oneSided', setUp)('wrong arguments to remote memory are refused, and it goes on', async () => {
    const pair = await connectPair(setUp);
    const { remote } = await share(pair, 64, allAccess(setUp));
    await check(REMOTE, remote);
    await remote.write(0, numbered(1));
    expect(pair.client.state).toBe('open');
  });

  test('wrong arguments to a listener are refused, and it goes on', async () => {
    const listener = await listenForTest(setUp);
    await check(LISTENER, listener);
    listener.onConnection(() => {});
  });
}
