import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Placement, placed } from '../run/placement.js';

export interface ToolRun {
  /** `ib_send_lat`, `ib_send_bw`, … */
  readonly tool: string;
  /** Options that server and client both get. */
  readonly options: readonly string[];
  /** An address of the RDMA device. */
  readonly host: string;
  readonly placement: Placement;
}

const RUN_LIMIT_MS = 60_000;
const CONNECT_LIMIT_MS = 30_000;
const CLOCK_ATTEMPTS = 5;

/** Runs a perftest tool's server and client, and answers with what the client printed. */
export async function runTool(run: ToolRun): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const output = await runOnce(run);
    // Before it starts it compares the cycle counter with the clock; if something comes between, it cannot tell the time.
    if (!output.includes('Correlation coefficient') || attempt === CLOCK_ATTEMPTS) return output;
  }
}

async function runOnce(run: ToolRun): Promise<string> {
  // -R: connect by rdma_cm, so that the address chooses the device, as it does for verbmq. -F: no word about CPU frequency.
  const command = [run.tool, '-R', '-F', '-p', String(await freePort()), ...run.options];
  // perftest's server says when it waits for its client; stdbuf makes that come at once.
  const server = new Tool(placed(['stdbuf', '-oL', ...command], run.placement, 'server'));
  try {
    await server.prints('Waiting for client');
    const giveUpAt = performance.now() + CONNECT_LIMIT_MS;
    for (;;) {
      const client = new Tool(placed([...command, run.host], run.placement, 'client'));
      try {
        const output = await client.ended();
        await server.ended();
        return output;
      } catch (error) {
        // It says that it waits a moment before it does.
        if (performance.now() > giveUpAt || !server.running) throw error;
        await delay(200);
      } finally {
        await client.stop();
      }
    }
  } finally {
    await server.stop();
  }
}

class Tool {
  readonly #process: ChildProcess;
  readonly #name: string;
  readonly #closed: Promise<unknown>;
  #output = '';
  #onOutput: () => void = () => {};

  constructor([program = '', ...args]: string[]) {
    this.#name = [program, ...args].join(' ');
    this.#process = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#closed = once(this.#process, 'close');
    this.#closed.catch(() => {}); // reported by whoever waits for it
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
        this.#onOutput();
      });
    }
  }

  get running(): boolean {
    return (
      this.#process.pid !== undefined && this.#process.exitCode === null && this.#process.signalCode === null
    );
  }

  async prints(text: string): Promise<void> {
    const printed = new Promise<void>((resolve) => {
      this.#onOutput = () => {
        if (this.#output.includes(text)) resolve();
      };
    });
    const ended = this.#closed.then(() => {
      throw this.#failed('ended too early');
    });
    await Promise.race([printed, ended]);
    ended.catch(() => {});
  }

  /** Resolves with its output when it has ended well; rejects when it failed, or does not end. */
  async ended(): Promise<string> {
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), RUN_LIMIT_MS);
    try {
      await this.#closed;
    } finally {
      clearTimeout(timer);
    }
    const { exitCode, signalCode } = this.#process;
    if (exitCode !== 0) throw this.#failed(`ended with ${signalCode ?? `status ${exitCode}`}`);
    return this.#output;
  }

  async stop(): Promise<void> {
    if (!this.running) return;
    this.#process.kill('SIGKILL');
    await this.#closed;
  }

  #failed(how: string): Error {
    return new Error(`'${this.#name}' ${how}\n${this.#output.trim()}`);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
