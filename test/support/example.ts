import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const DIRECTORY = fileURLToPath(new URL('../../examples/dist/', import.meta.url));

/** A compiled example that runs in a process of its own. It is killed when the test is over. */
export interface Example {
  /** The next line that it prints. */
  line(): Promise<string>;
  /** Everything that it prints until it ends, from the lines on that have not been asked for. */
  rest(): Promise<string[]>;
  /** Ends it as an operator would. */
  terminate(): void;
  /** Exit status and signal. */
  readonly exit: Promise<unknown[]>;
}

/** @param name path in `examples/`, without extension @param url of the service */
export function startExample(name: string, url: string, args: readonly string[] = []): Example {
  const child = spawn(process.execPath, [join(DIRECTORY, `${name}.js`), ...args], {
    env: { ...process.env, VERBMQ_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const exit = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    exit,
    async line() {
      const { done, value } = await lines.next();
      if (done) throw new Error(`${name} ended without a further line`);
      return value;
    },
    async rest() {
      const rest: string[] = [];
      for (let next = await lines.next(); !next.done; next = await lines.next()) rest.push(next.value);
      return rest;
    },
    terminate: () => void child.kill('SIGTERM'),
  };
}

/** Starts a service, and answers with the URL that it announces besides. */
export async function startService(name: string, url: string): Promise<{ service: Example; url: string }> {
  const service = startExample(name, url);
  const announced = /^listening on (.*)$/.exec(await service.line())?.[1];
  if (announced === undefined) throw new Error(`${name} did not announce where it listens`);
  return { service, url: announced };
}
