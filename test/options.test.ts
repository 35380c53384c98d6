import { readFileSync } from 'node:fs';
import {
  type Address,
  AutoTransport,
  connect,
  createTransport,
  listen,
  RdmaTransport,
  TcpTransport,
  VerbmqTransport,
} from 'verbmq';
import { MsgpackCodec } from 'verbmq/codec';
import { PubsubBroker, pubsub, resubscribe } from 'verbmq/pubsub';
import { QueueBroker, queue } from 'verbmq/queue';
import { client, serve } from 'verbmq/rpc';
import { describe, expect, test } from 'vitest';
import { memorySetUp } from './support/transports/memory.js';

// docs/options.md says that an option of the wrong type is a TypeError, and one out of range a RangeError, and that both name it. This
// gives everything that takes options each of those that its table has, wrongly.
const document = readFileSync(new URL('../docs/options.md', import.meta.url), 'utf8');

/** What programs without types pass. */
// biome-ignore lint/suspicious/noExplicitAny: see above
type Wrong = any;

interface Option {
  readonly name: string;
  readonly isNumber: boolean;
}

const tables = new Map(
  [...document.matchAll(/^<!-- options: \S+ (.+?)(?: without .+)? -->\n\n((?:\|.*\n?)+)/gm)].map(
    ([, of, rows]) => [of as string, optionsOf(rows as string)],
  ),
);

function optionsOf(rows: string): Option[] {
  const cells = rows
    .trimEnd()
    .split('\n')
    .slice(2)
    .map((row) => row.split('|'));
  return cells.flatMap(([, names = '', value = '']) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name = '']) => ({
      name,
      isNumber: /\d/.test(value) || /^max|Ms$|Bytes$|^slots$/.test(name),
    })),
  );
}

const SOMEWHERE = {
  tcp: 'tcp://127.0.0.1:0',
  tls: 'tls://127.0.0.1:0',
  rdma: 'rdma://127.0.0.1:0',
  verbmq: 'verbmq://127.0.0.1:0',
} as const satisfies Record<string, Address>;

const listens = (...kinds: (keyof typeof SOMEWHERE)[]) =>
  kinds.map((kind) => (options: Wrong) => listen(SOMEWHERE[kind], options));
const connects = (...kinds: (keyof typeof SOMEWHERE)[]) =>
  kinds.map((kind) => (options: Wrong) => connect(SOMEWHERE[kind], options));
const makes = (...kinds: (keyof typeof SOMEWHERE)[]) =>
  kinds.map((kind) => (options: Wrong) => createTransport(kind, options));

const { client: near, server: far } = await pairForAll();
const jobs = new QueueBroker();
const events = new PubsubBroker();
serve(far, { ...jobs.service, ...events.service, echo: (body: unknown) => body });
const api = client<{ echo(body: unknown): unknown }>(near);
const packing = queue<number>(near, 'packing');
const news = pubsub(near);

/** Whatever takes the options of a table: a promise, an iterator or an object, or it throws. */
const takers: Record<string, ((options: Wrong) => unknown)[]> = {
  ConnectionOptions: [
    ...makes('tcp', 'rdma', 'verbmq'),
    ...listens('tcp', 'rdma', 'verbmq'),
    ...connects('tcp', 'rdma', 'verbmq'),
  ],
  ConnectOptions: connects('tcp', 'rdma', 'verbmq'),
  TcpWindowOptions: [(options) => new TcpTransport(options), ...listens('tcp'), ...connects('tcp')],
  TcpListenOptions: listens('tcp', 'tls'),
  TcpConnectOptions: connects('tcp', 'tls', 'verbmq'),
  'RdmaTransportOptions SlotOptions LargeMessageOptions': [(options) => new RdmaTransport(options)],
  SharedReceiveQueueOptions: [
    (options) =>
      new RdmaTransport({ sharedReceiveQueue: isObject(options) ? { slots: 64, ...options } : options }),
  ],
  RdmaListenOptions: listens('rdma'),
  RdmaConnectOptions: [
    ...connects('rdma'),
    (options) => new RdmaTransport().connect(SOMEWHERE.rdma, options),
  ],
  AutoOptions: [...makes('verbmq'), ...listens('verbmq'), ...connects('verbmq')],
  VerbmqTransportOptions: [(options) => new VerbmqTransport(options), ...connects('verbmq')],
  AutoTransportOptions: [
    (options) => new AutoTransport(isObject(options) ? { base: new TcpTransport(), ...options } : options),
  ],
  ClientOptions: [
    (options) => client(near, options),
    (options) => queue(near, 'packing', options),
    (options) => pubsub(near, options),
  ],
  CallOptions: [
    (options) => api.echo(1, options),
    (options) => packing.push(1, options),
    (options) => news.publish('a', 1, options),
  ],
  ServeOptions: [(options) => serve(far, {}, options)],
  MsgpackCodecOptions: [(options) => new MsgpackCodec(options)],
  QueueBrokerOptions: [(options) => new QueueBroker(options)],
  QueueOptions: [(options) => queue(near, 'packing', options)],
  PushOptions: [(options) => packing.push(1, options), (options) => jobs.push('packing', 1, options)],
  'ConsumeOptions LeaveOptions': [(options) => packing.consume(options)],
  'WorkOptions LeaveOptions': [(options) => packing.work(() => {}, options)],
  PubsubBrokerOptions: [(options) => new PubsubBroker(options)],
  PublishOptions: [(options) => news.publish('a', 1, options), (options) => events.publish('a', 1, options)],
  SubscribeOptions: [
    (options) => news.subscribe('a', options),
    (options) => resubscribe(async () => near, 'a', options).next(),
  ],
  ResubscribeOptions: [(options) => resubscribe(async () => near, 'a', options).next()],
};

async function pairForAll() {
  const setUp = memorySetUp();
  const transport = setUp.createTransport();
  const listener = await transport.listen(setUp.listenAddress());
  const server = listener[Symbol.asyncIterator]().next();
  const connection = await transport.connect(listener.url);
  return { client: connection, server: (await server).value as typeof connection };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** The error of what should have failed; of what has not, nothing goes on. */
async function errorOf(take: () => unknown): Promise<unknown> {
  let taken: Wrong;
  try {
    taken = await take();
  } catch (error) {
    return error;
  }
  await taken?.close?.();
  return 'it was taken';
}

const LISTS = ['interceptors', 'fastAddresses'];
const WRONG_NUMBERS = ['5', 5n, Number.NaN, -1, Number.POSITIVE_INFINITY, 2 ** 60];

test('every table is tried', () => {
  expect(Object.keys(takers)).toEqual([...tables.keys()]);
});

describe.each([...tables])('%s', (of, options) => {
  test.each(options)('$name: what is none is refused, by this name', async ({ name, isNumber }) => {
    const wrong = isNumber ? WRONG_NUMBERS : LISTS.includes(name) ? [5, [5]] : [5, Symbol('wrong')];
    for (const value of wrong) {
      for (const [index, take] of (takers[of] ?? []).entries()) {
        const error = await errorOf(() => take({ [name]: value }));
        const what = `${String(value)}, ${index}`;
        expect(error, what).toSatisfy((e) => e instanceof TypeError || e instanceof RangeError);
        expect((error as Error).message, what).toContain(name);
      }
    }
  });

  test.each([[null], [5], ['text'], [() => {}]])('%s in place of the options is refused', async (wrong) => {
    for (const [index, take] of (takers[of] ?? []).entries())
      expect(await errorOf(() => take(wrong)), String(index)).toMatchObject({
        name: 'TypeError',
        message: expect.stringContaining('must be an object'),
      });
  });
});
