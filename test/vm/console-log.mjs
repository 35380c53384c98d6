const trouble = /Kernel panic|BUG:|Oops:|general protection fault|unable to handle|Internal error/;

/**
 * The end of what a guest printed on its console, and the place where its kernel began to complain.
 */
export class ConsoleLog {
  #text = '';

  /** @param {Buffer} bytes */
  add(bytes) {
    // Enough for several oopses; a guest that floods its console must not fill our memory.
    this.#text = (this.#text + bytes.toString('latin1')).slice(-200_000);
  }

  get text() {
    return this.#text;
  }

  /** The kernel's own complaint in one line, if there was one. */
  get panic() {
    const lines = this.#lines();
    return lines.find((line) => line.includes('Kernel panic')) ?? lines.find((line) => trouble.test(line));
  }

  /** @returns {string} the kernel's complaint from its first line on, else the last lines; for a report */
  summary() {
    const lines = this.#lines();
    const first = lines.findIndex((line) => trouble.test(line));
    const shown = first >= 0 ? lines.slice(first, first + 60) : lines.slice(-25);
    return shown.length > 0
      ? `the guest's console:\n${shown.map((line) => `  | ${line}`).join('\n')}`
      : "the guest's console is empty";
  }

  #lines() {
    // The firmware paints with escape sequences.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
    const plain = this.#text.replace(/\x1b(\[[0-9;?=]*[a-zA-Z]|c)/g, '');
    return plain.split(/\r?\n/).filter((line) => line.trim() !== '');
  }
}
