/**
 * Starts the echo service of the README and its client, and compares what the client prints with what it must.
 *
 * Usage: run-echo.mjs DIRECTORY    where echo-service.js and echo-client.js are
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const directory = process.argv[2] ?? '.';
const due = ['whole', 'messages,', 'in', 'order'].map((word) => `tcp: ${word}`);

/** @param {string} name @param {string} url */
function start(name, url) {
  const env = { ...process.env, VERBMQ_URL: url };
  const child = spawn(process.execPath, [join(directory, name)], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return { child, exit: once(child, 'exit'), lines: createInterface({ input: child.stdout }) };
}

const service = start('echo-service.js', 'tcp://127.0.0.1:0');
try {
  const [line] = await Promise.race([once(service.lines, 'line'), service.exit]);
  const url = /^listening on (.*)$/.exec(line)?.[1];
  if (url === undefined) {
    throw new Error(`the service said ${line}`);
  }
  const client = start('echo-client.js', url);
  /** @type {string[]} */
  const said = [];
  for await (const each of client.lines) {
    said.push(each);
  }
  if (said.join() !== due.join()) {
    throw new Error(`the client said ${said.join()}`);
  }
  service.child.kill('SIGTERM');
  for (const [status] of [await client.exit, await service.exit]) {
    if (status !== 0) {
      throw new Error(`exit status ${status}`);
    }
  }
} finally {
  service.child.kill('SIGKILL');
}
