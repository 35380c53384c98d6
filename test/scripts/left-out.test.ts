import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { root, tools } from '../../scripts/lib/paths.mjs';
import { leavingOut } from '../../scripts/test/vitest-run.mjs';

const run = promisify(execFile);

it('a run of vitest leaves out what is left to another one', { timeout: 60_000 }, async () => {
  const filesWithout = async (...tests: string[]): Promise<string> => {
    const args = [tools.vitest, 'list', '--filesOnly', '--project', 'conformance'];
    const env = { ...process.env, ...leavingOut(tests) };
    return (await run(process.execPath, args, { cwd: root, env })).stdout;
  };
  expect(await filesWithout()).toContain('test/conformance/tcp.test.ts');
  const rest = await filesWithout('test/conformance/tcp', 'test/conformance/tls');
  expect(rest).toContain('test/conformance/unix.test.ts');
  expect(rest).not.toContain('test/conformance/tcp.test.ts');
  expect(rest).not.toContain('test/conformance/tls.test.ts');
});
