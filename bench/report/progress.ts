/** Shows what is being done: on a terminal in one line that is rewritten, elsewhere in a line for each step. */
export class Progress {
  readonly #stream: NodeJS.WriteStream;
  readonly #steps: number;
  #step = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(stream: NodeJS.WriteStream, steps: number) {
    this.#stream = stream;
    this.#steps = steps;
  }

  /** A new step begins. */
  next(what: string): void {
    clearInterval(this.#timer);
    this.#step++;
    const line = `[${this.#step}/${this.#steps}] ${what}`;
    if (!this.#stream.isTTY) {
      this.#stream.write(`${line}\n`);
      return;
    }
    const startedAt = performance.now();
    const show = (): void => {
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      this.#stream.write(`\r\x1b[2K${line} … ${seconds} s`);
    };
    show();
    this.#timer = setInterval(show, 100);
  }

  /** The row that was worked on has an end before its last step: leaves out `steps` of them. */
  skip(steps: number): void {
    this.#step += steps;
  }

  done(): void {
    clearInterval(this.#timer);
    if (this.#stream.isTTY) this.#stream.write('\r\x1b[2K');
  }
}
