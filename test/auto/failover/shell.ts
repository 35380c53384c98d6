import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';

const END = 'status of the command:';

/**
 * A shell that is started before there is any traffic and runs the commands of a test. A process that starts one itself stands still
 * until its page tables are copied: half a second in the guest, which would look like a pause of the messages.
 */
export class Shell {
  readonly #child = spawn('sh', { stdio: ['pipe', 'pipe', 'inherit'] });
  readonly #lines = createInterface({ input: this.#child.stdout });
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    onTestFinished(() => void this.#child.stdin.end());
  }

  /** Resolves with what the command has printed, when those before it and it have ended. Rejects unless its status is 0. */
  run(command: string): Promise<string> {
    const result = this.#last.then(() => this.#run(command));
    this.#last = result.catch(() => {});
    return result;
  }

  #run(command: string): Promise<string> {
    const printed: string[] = [];
    return new Promise((resolve, reject) => {
      const read = (line: string): void => {
        if (!line.startsWith(END)) {
          printed.push(line);
          return;
        }
        this.#lines.off('line', read);
        const status = line.slice(END.length).trim();
        if (status === '0') resolve(printed.join('\n'));
        else reject(new Error(`${command}: status ${status}: ${printed.join('\n')}`));
      };
      this.#lines.on('line', read);
      this.#child.stdin.write(`{ ${command}; } 2>&1 </dev/null; echo "${END} $?"\n`);
    });
  }
}
