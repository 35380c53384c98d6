import { readFileSync } from 'node:fs';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { serve } from 'verbmq/rpc';
import { expect, onTestFinished, test } from 'vitest';

test('a server says the bytes that docs/protocol-messaging.md shows', async () => {
  const document = readFileSync(new URL('../../docs/protocol-messaging.md', import.meta.url), 'utf8');
  const [, shown] = /<!-- bytes -->\n```\n([\s\S]*?)```/.exec(document) ?? [];
  const lines = (shown ?? '')
    .trimEnd()
    .split('\n')
    .map((line) => line.split(': ') as [string, string]);
  expect(lines.length).toBeGreaterThan(5);

  const transport = new TcpTransport();
  onTestFinished(() => transport.close());
  const listener = await transport.listen('tcp://127.0.0.1:0');
  serve(listener, { add: ({ a, b }: { a: number; b: number }) => a + b });
  const connection = await transport.connect(listener.url);
  const said = connection.messages();
  for (const [side, bytes] of lines) {
    const hex = bytes.replaceAll(' ', '');
    if (side === 'client') await connection.send(Buffer.from(hex, 'hex'));
    else expect(Buffer.from((await said.next()).value?.data ?? []).toString('hex')).toBe(hex);
  }
});
