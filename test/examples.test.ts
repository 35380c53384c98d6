import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as netConnect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect } from 'verbmq';
import { describe, expect, it } from 'vitest';
import { AbortCode, abortFrame } from '../packages/tcp-fallback/src/frame.js';
import { encodeHello } from '../packages/tcp-fallback/src/hello.js';
import { HELLO } from '../packages/tcp-fallback/test/raw-peer.js';
import { startExample, startService } from './support/example.js';
import { counterExample, tableExample } from './support/one-sided-examples.js';
import { orderExample } from './support/order-example.js';
import { until } from './support/until.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const URLS = [
  ['tcp', 'tcp://127.0.0.1:0'],
  ['unix', `unix://${join(tmpdir(), `verbmq-example-${process.pid}.sock`)}`],
] as const;

describe('the echo example', () => {
  it.each(URLS)('serves over %s, and ends when it is told to', async (kind, url) => {
    const { service, url: announced } = await startService('echo-service', url);
    expect(announced).toMatch(url.replace(/:0$/, ':'));

    const client = startExample('echo-client', announced);
    expect(await client.rest()).toEqual(
      ['whole', 'messages,', 'in', 'order'].map((word) => `${kind}: ${word}`),
    );
    expect(await client.exit).toEqual([0, null]);

    service.terminate();
    expect(await service.exit).toEqual([0, null]);
  });
});

describe('the order example', () => {
  it.each([...URLS, ['auto', 'verbmq://127.0.0.1:0'] as const])(
    'takes, packs and tells of orders over %s',
    (_, url) => orderExample(url),
  );
});

describe('the examples of one-sided memory', () => {
  it.each(URLS)('share a table over %s, which a blocked owner holds up', async (_, url) => {
    // Here the owner's code has to answer; one read may have been on its way.
    expect(await tableExample(url)).toBeLessThanOrEqual(1);
  });

  it.each(URLS)('share a counter over %s', (_, url) => counterExample(url));
});

describe('a service of the examples goes on when one connection breaks', () => {
  it.each([
    ['echo-service', 'echo-client', 'tcp://127.0.0.1:0'],
    ['moving-service', 'moving-client', 'verbmq://127.0.0.1:0'],
  ])('%s: with answers that nobody reads', async (name, next, listenUrl) => {
    const { service, url } = await startService(name, listenUrl);
    const connection = await connect(url);
    const message = Buffer.alloc(64 * 1024);
    const sent = Array.from({ length: 400 }, () => connection.send(message));
    await until(() => connection.stats().messagesReceived >= 60); // a window of them, but for the last few
    connection.abort('enough');
    await Promise.allSettled(sent);

    expect(await startExample(next, url).exit).toEqual([0, null]);
    service.terminate();
    expect(await service.exit).toEqual([0, null]);
  });

  it('counter/owner: before it was told of the counter', async () => {
    const { service, url } = await startService('counter/owner', 'tcp://127.0.0.1:0');
    const stranger = netConnect(Number(new URL(url).port), '127.0.0.1');
    stranger.write(Buffer.concat([encodeHello(HELLO), abortFrame(AbortCode.OTHER, 'changed my mind')]));
    stranger.resume();
    await once(stranger, 'close');

    const worker = startExample('counter/worker', url, ['3']);
    expect(await worker.rest()).toEqual(['0 1 2']);
    service.terminate();
    expect(await service.rest()).toEqual(['counted to 3']);
    expect(await service.exit).toEqual([0, null]);
  });
});

describe('the example of tracing', () => {
  it('gives OpenTelemetry one trace from the first caller to the last subscriber, and its errors', async () => {
    const chain = startExample('tracing/chain', 'tcp://127.0.0.1:0');
    expect(await chain.rest()).toEqual([
      'client place',
      '  server place',
      '    client reserve',
      '      server reserve',
      '    producer send packing',
      '      consumer process packing',
      '        producer publish packed',
      '          consumer receive packed',
      'client place failed: no coffee left',
      '  server place failed: no coffee left',
      '    client reserve failed: no coffee left',
      '      server reserve failed: no coffee left',
    ]);
    expect(await chain.exit).toEqual([0, null]);
  });
});

describe.each(['README.md', 'packages/verbmq/README.md'])('%s', (document) => {
  const readme = readFileSync(join(ROOT, document), 'utf8');
  const shown = [...readme.matchAll(/<!-- example: (\S+) -->\n```ts\n([\s\S]*?)```/g)];

  it('shows an example', () => {
    expect(shown.map(([, path]) => path)).toContain('examples/echo-service.ts');
  });

  it.each(shown.map(([, path, code]) => [path!, code!]))('shows %s as it is', (path, code) => {
    expect(code).toBe(readFileSync(join(ROOT, path), 'utf8'));
  });
});
