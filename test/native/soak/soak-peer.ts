import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Memory } from './memory.mjs';
import type { ScriptOptions } from './script.mjs';
import type { Tally } from './sides.mjs';

const PROGRAM = fileURLToPath(new URL('./peer.mjs', import.meta.url));

/** What a peer is to do: `first` is the number of its first connection. */
export interface SoakTask {
  readonly url: string;
  readonly messages: number;
  readonly first: number;
}

/** What a peer has seen since it was started, when nothing is open. */
export interface SoakReport {
  readonly tally: Tally;
  readonly next: number;
  readonly memory: Memory;
}

/** The connecting side of a soak, in a process of its own. It is killed when the test is over. */
export class SoakPeer {
  /** Resolves with the exit code, or the name of the signal that ended it. */
  readonly exited: Promise<number | string>;
  readonly #child: ChildProcess;

  constructor(script: ScriptOptions) {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const;
    this.#child = fork(PROGRAM, [JSON.stringify(script)], { execArgv: [], stdio: [...stdio] });
    this.exited = once(this.#child, 'exit').then(([code, signal]) => signal ?? code);
    onTestFinished(async () => {
      this.kill();
      await this.exited;
    });
  }

  start(task: SoakTask): void {
    this.#child.send(task);
  }

  /** Rejects when the peer has exited: it has printed what was wrong. */
  async finish(task: SoakTask): Promise<SoakReport> {
    this.start(task);
    const exited = this.exited.then((how) => Promise.reject(new Error(`the peer has ended: ${how}`)));
    const [report] = await Promise.race([once(this.#child, 'message'), exited]);
    return report as SoakReport;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}
