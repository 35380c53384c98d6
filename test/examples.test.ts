import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Starts a compiled example; it is killed when the test is over. */
function start(example: string, url: string): ChildProcess {
  const child = spawn(process.execPath, [join(ROOT, 'examples/dist', `${example}.js`)], {
    env: { ...process.env, VERBMQ_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return child;
}

async function firstLine(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) return line;
  throw new Error('the example ended without a line');
}

describe('the echo example', () => {
  it.each([
    ['tcp', 'tcp://127.0.0.1:0'],
    ['unix', `unix://${join(tmpdir(), `verbmq-example-${process.pid}.sock`)}`],
  ])('serves over %s, and ends when it is told to', async (kind, url) => {
    const service = start('echo-service', url);
    const serviceExit = once(service, 'exit');
    const announced = /^listening on (.*)$/.exec(await firstLine(service))?.[1];
    expect(announced).toMatch(url.replace(/:0$/, ':'));

    const client = start('echo-client', announced!);
    const clientExit = once(client, 'exit');
    expect(await text(client.stdout!)).toBe(
      ['whole', 'messages,', 'in', 'order'].map((word) => `${kind}: ${word}\n`).join(''),
    );
    expect(await clientExit).toEqual([0, null]);

    service.kill('SIGTERM');
    expect(await serviceExit).toEqual([0, null]);
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
