import { readFileSync } from 'node:fs';
import { connect, isVerbmqError, listen } from 'verbmq';
import { expect, test } from 'vitest';
import { expectShown } from './support/guide.js';
import { workAmong } from './support/working-directory.js';

// What docs/security.md shows is run here, line by line, imports too: the last test compares the two.

const printed: unknown[] = [];
const console = { log: (...values: unknown[]) => void printed.push(...values) };

const pem = (name: string) => readFileSync(new URL(`support/certificate/${name}.pem`, import.meta.url));
workAmong({
  'shared.key': Buffer.from('a secret of the tests, which is no secret'),
  'key.pem': pem('key'),
  'certificate.pem': pem('certificate'),
  'authority.pem': pem('certificate'), // it is signed by itself
});

test('the guide to security', async () => {
  const preSharedKey = readFileSync('shared.key'); // 16 bytes at least, which nobody can guess: openssl rand -out shared.key 32
  const listener = await listen('verbmq://127.0.0.1:0', { preSharedKey });
  const connection = await connect(listener.url, { preSharedKey });
  console.log(connection.state);

  try {
    await connect(listener.url, { preSharedKey: Buffer.alloc(32) });
  } catch (error) {
    if (isVerbmqError(error, 'ERR_VERBMQ_REJECTED')) console.log(error.reason, error.retryable);
  }
  await listener.close();
  await connection.close();

  const authority = readFileSync('authority.pem');
  const identity = { key: readFileSync('key.pem'), cert: readFileSync('certificate.pem') };
  const encrypted = await listen('tls://127.0.0.1:0', { tls: identity });
  const client = await connect(encrypted.url, { tls: { ca: authority } });
  console.log(client.kind);
  await encrypted.close();
  await client.close();

  const tls = { ...identity, ca: authority, requestCert: true };
  const guarded = await listen('verbmq://127.0.0.1:0', { tls });
  const known = await connect(guarded.url, { tls: { ...identity, ca: authority } });
  console.log(known.state);

  try {
    await connect(guarded.url, { tls: { ca: authority } });
  } catch (error) {
    if (isVerbmqError(error, 'ERR_VERBMQ_TLS')) console.log(error.message);
  }
  await guarded.close();
  await known.close();

  expect(printed).toEqual([
    'open',
    'authentication',
    false,
    'tls',
    'open',
    expect.stringContaining('client certificate'),
  ]);
});

test('shows what is run here, in the same order, and nothing else', () => {
  expect(expectShown('docs/security.md', import.meta.url, 4)).toEqual([]);
});
