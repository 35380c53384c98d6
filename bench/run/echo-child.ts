import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { NodeContestantName } from '../contestants/index.js';
import { type Placement, placed, type Role } from './placement.js';
import type { CommandName, Commands, Reply } from './protocol.js';

const PROGRAM = fileURLToPath(new URL('./echo-process.js', import.meta.url));
/** For whatever has no duration of its own. Generous: a software-emulated machine starts Node in several seconds. */
const ANSWER_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 10_000;

/** An echo server or client in a process of its own. */
export class EchoChild {
  readonly #process: ChildProcess;
  readonly #what: string;
  #pending: { resolve: (answer: unknown) => void; reject: (error: Error) => void } | undefined;
  #stderr = '';

  constructor(
    contestant: NodeContestantName,
    role: Role,
    placement: Placement,
    nodeOptions: readonly string[] = [],
  ) {
    this.#what = `the ${contestant} ${role}`;
    const [command = '', ...args] = placed(
      [process.execPath, ...nodeOptions, PROGRAM, contestant],
      placement,
      role,
    );
    this.#process = spawn(command, args, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] });
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-4000);
    });
    this.#process.on('message', (reply: Reply) => {
      const pending = this.#pending;
      this.#pending = undefined;
      if (reply.ok) pending?.resolve(reply.answer);
      else pending?.reject(new Error(`${this.#what}: ${reply.error}`));
    });
    this.#process.on('error', (error) => this.#fail(`could not be started: ${error.message}`));
    // 'close' rather than 'exit': by then everything that it wrote to stderr is here.
    this.#process.on('close', (status, signal) => this.#fail(`ended with ${signal ?? `status ${status}`}`));
  }

  /** Gives a command and waits for its answer. One at a time. */
  ask<Name extends CommandName>(
    command: Name,
    ...[argument, limitMs = ANSWER_LIMIT_MS]: Commands[Name]['argument'] extends undefined
      ? [argument?: undefined, limitMs?: number]
      : [argument: Commands[Name]['argument'], limitMs?: number]
  ): Promise<Commands[Name]['answer']> {
    return new Promise((resolve, reject) => {
      if (!this.#process.connected) throw new Error(`${this.#what} has ended\n${this.#stderr}`);
      const timer = setTimeout(() => {
        this.#pending = undefined;
        reject(new Error(`${this.#what} did not answer '${command}' within ${limitMs} ms`));
      }, limitMs);
      this.#pending = {
        resolve: (answer) => {
          clearTimeout(timer);
          resolve(answer as Commands[Name]['answer']);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      this.#process.send({ command, argument });
    });
  }

  /** Ends the process: in order, or with SIGKILL to it alone when it does not. Rejects when it had to be killed. */
  async stop(): Promise<void> {
    if (
      this.#process.exitCode !== null ||
      this.#process.signalCode !== null ||
      this.#process.pid === undefined
    )
      return;
    const ended = once(this.#process, 'close');
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), STOP_LIMIT_MS);
    try {
      await this.ask('stop', undefined, STOP_LIMIT_MS);
      await ended;
      if (this.#process.signalCode !== null) throw new Error(`${this.#what} did not end by itself`);
    } finally {
      await ended;
      clearTimeout(timer);
    }
  }

  #fail(why: string): void {
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.reject(new Error(`${this.#what} ${why}\n${this.#stderr}`.trimEnd()));
  }
}
