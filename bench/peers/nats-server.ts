import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Room for messages of 1 MiB and their headers: by default that is the limit, of both together. */
const CONFIGURATION = 'host: 127.0.0.1\nport: -1\nmax_payload: 2MB\n';

/** The kernel counts in ticks of 10 ms (proc(5)). */
const TICK_MICROS = 10_000;

/** A nats-server of our own, on any free port. */
export class NatsServer {
  readonly url: string;
  readonly #process: ChildProcess;

  static async start(): Promise<NatsServer> {
    const directory = mkdtempSync(join(tmpdir(), 'verbmq-nats-'));
    try {
      const file = join(directory, 'nats-server.conf');
      writeFileSync(file, CONFIGURATION);
      // It ends with this process, however that ends.
      const args = ['--pdeathsig', 'TERM', 'nats-server', '-c', file];
      const child = spawn('setpriv', args, { stdio: ['ignore', 'ignore', 'pipe'] });
      return new NatsServer(child, await listening(child));
    } finally {
      rmSync(directory, { recursive: true });
    }
  }

  private constructor(child: ChildProcess, url: string) {
    this.#process = child;
    this.url = url;
  }

  /** What it has used so far, in all its threads. */
  cpuMicros(): number {
    const stat = readFileSync(`/proc/${this.#process.pid}/stat`, 'utf8');
    // The name of the program may hold spaces; behind it stands the third field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * TICK_MICROS;
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null) return;
    const closed = once(this.#process, 'close');
    this.#process.kill();
    await closed;
  }
}

/** Where it listens, as it writes into its log. */
async function listening(child: ChildProcess): Promise<string> {
  const lines: string[] = [];
  const failed = once(child, 'error').then(([error]) => {
    throw error;
  });
  failed.catch(() => {});
  const found = (async () => {
    for await (const line of createInterface({ input: child.stderr! })) {
      lines.push(line);
      const address = /Listening for client connections on (\S+)$/.exec(line)?.[1];
      if (address !== undefined) {
        child.stderr?.resume();
        return `nats://${address}`;
      }
    }
    throw new Error(`nats-server did not start:\n${lines.join('\n')}`);
  })();
  return await Promise.race([found, failed]);
}
