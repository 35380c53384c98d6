import { createInterface } from 'node:readline';

/**
 * QEMU's monitor protocol, as far as it is needed here: commands one after the other, events ignored.
 */
export class QemuMonitor {
  /** @type {import('node:net').Socket} */
  #socket;
  /** @type {{resolve: () => void, reject: (error: Error) => void}[]} */
  #waiting = [];

  /** @param {import('node:net').Socket} socket the monitor's connection; used by nobody else */
  constructor(socket) {
    this.#socket = socket;
    createInterface({ input: socket }).on('line', (line) => {
      const message = JSON.parse(line);
      if (message.return !== undefined) {
        this.#waiting.shift()?.resolve();
      } else if (message.error !== undefined) {
        this.#waiting.shift()?.reject(new Error(`QEMU: ${message.error.desc}`));
      }
    });
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) {
        reject(new Error('QEMU has ended'));
      }
    });
    // The monitor takes commands only after this one; a fault here shows itself in the next.
    this.execute('qmp_capabilities').catch(() => {});
  }

  /**
   * @param {string} command @param {object} [args]
   * @returns {Promise<void>} rejects with QEMU's own words when it refuses
   */
  execute(command, args) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#socket.write(`${JSON.stringify({ execute: command, arguments: args })}\n`);
    });
  }
}
