import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { startExample, startService } from './support/example.js';
import { counterExample, tableExample } from './support/one-sided-examples.js';
import { orderExample } from './support/order-example.js';

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
  it.each(URLS)('takes, packs and tells of orders over %s', (_, url) => orderExample(url));
});

describe('the examples of one-sided memory', () => {
  it.each(URLS)('share a table over %s, which a blocked owner holds up', async (_, url) => {
    // Here the owner's code has to answer; one read may have been on its way.
    expect(await tableExample(url)).toBeLessThanOrEqual(1);
  });

  it.each(URLS)('share a counter over %s', (_, url) => counterExample(url));
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

describe('README.md', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const shown = [...readme.matchAll(/<!-- example: (\S+) -->\n```ts\n([\s\S]*?)```/g)];

  it('shows an example', () => {
    expect(shown.map(([, path]) => path)).toContain('examples/echo-service.ts');
  });

  it.each(shown.map(([, path, code]) => [path!, code!]))('shows %s as it is', (path, code) => {
    expect(code).toBe(readFileSync(join(ROOT, path), 'utf8'));
  });
});
