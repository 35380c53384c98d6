import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Address } from '@verbmq/core';
import type { AutoOptions } from '@verbmq/core/auto';
import { onTestFinished } from 'vitest';
import type { SetUp } from './set-up.js';
import { takeProcess } from './waiting-process.js';

/** What a peer in another process is to do. */
export type PeerTask = (
  | { readonly role: 'listen' }
  | { readonly role: 'connect'; readonly url: string }
  | { readonly role: 'alone'; readonly ends: 'connection' | 'abort' | 'transport' }
) & {
  readonly options?: Omit<AutoOptions, 'logger'>;
  /** Reads messages and forgets them. Without this and `echoes` it reads nothing. */
  readonly reads?: boolean;
  readonly echoes?: boolean;
  /** Sends messages of so many bytes without end. */
  readonly floods?: number;
  /** Exposes so many bytes, and sends their descriptor as its first message. */
  readonly exposes?: number;
  readonly atomics?: boolean;
  /** Does nothing at all for so long when a message comes, and then sends it back. */
  readonly blocksMs?: number;
  /** What an auto connection whose server is lost does while it is to be resumed. Then the process is left to exit. */
  readonly whenLost?: 'closes' | 'waits';
};

interface Report {
  readonly event: string;
  readonly url?: string;
  readonly graceful?: boolean;
  readonly code?: string;
}

const PROGRAM = fileURLToPath(new URL('./peer.mjs', import.meta.url));

/** A peer process; it is killed when the test is over. */
export class PeerProcess {
  readonly #child: ChildProcess;
  readonly #reports: Report[] = [];
  readonly #exited: Promise<number | string>;
  #wake: () => void = () => {};

  constructor(setUp: SetUp, task: PeerTask, address: Address = setUp.listenAddress()) {
    this.#child = takeProcess(PROGRAM, setUp.peer.module);
    this.#child.send({ ...task, peer: setUp.peer, address });
    this.#child.on('message', (report: Report) => {
      this.#reports.push(report);
      this.#wake();
    });
    this.#exited = once(this.#child, 'exit').then(([code, signal]) => {
      this.#wake();
      return (signal ?? code) as number | string;
    });
    onTestFinished(async () => {
      this.#child.kill('SIGKILL');
      await this.#exited;
    });
  }

  /** Resolves with the exit code, or the name of the signal that ended it. */
  get exited(): Promise<number | string> {
    return this.#exited;
  }

  /** Lets it have so many bytes of memory more than it has now. */
  limitMemory(moreBytes: number): void {
    const { pid } = this.#child;
    const kib = /VmSize:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    execFileSync('prlimit', ['--pid', String(pid), `--as=${Number(kib) * 1024 + moreBytes}`]);
  }

  kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal);
  }

  /** The first report of `event`. */
  async reported(event: string): Promise<Report> {
    for (;;) {
      const report = this.#reports.find((each) => each.event === event);
      if (report !== undefined) return report;
      if (this.#child.exitCode !== null) throw new Error(`the peer exited before it reported ${event}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Where it listens. */
  async url(): Promise<string> {
    return (await this.reported('listening')).url as string;
  }
}
