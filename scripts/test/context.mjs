/**
 * What the parts of `npm test` share: where their logs go, and how they run things.
 */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../lib/paths.mjs';
import { runProcess } from '../lib/run-process.mjs';
import { failed, lastLines, passed } from './results.mjs';

const aliveEveryMs = 20_000;

/**
 * @typedef {object} CommandSettings
 * @property {number} timeLimitMs
 * @property {NodeJS.ProcessEnv} [env] added to our own
 * @property {string} [cwd] instead of the checkout
 */

/** The run of one part. */
export class PartContext {
  /** The directory of this part's logs and recordings. */
  directory;
  #logs = 0;

  /** @param {string} name the part's */
  constructor(name) {
    this.directory = join(root, '.cache/test', name);
    mkdirSync(this.directory, { recursive: true });
  }

  /**
   * Runs a command to its end, and says every now and then what it printed last.
   * @param {string} title @param {string} command @param {string[]} args @param {CommandSettings} settings
   */
  async run(title, command, args, settings) {
    const start = Date.now();
    let lastLine = '';
    const alive = setInterval(() => {
      const seconds = Math.round((Date.now() - start) / 1000);
      console.log(`    ${title}: ${seconds} s … ${lastLine.trim().slice(0, 100)}`);
    }, aliveEveryMs);
    const result = await runProcess(command, args, {
      cwd: settings.cwd ?? root,
      // In CI, colours would be on: they have no place in logs and reports.
      env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined, ...settings.env },
      timeLimitMs: settings.timeLimitMs,
      log: join(this.directory, `${++this.#logs}-${title.replace(/[^\w.-]+/g, '-')}.log`),
      onLine: (line) => {
        lastLine = line.trim() === '' ? lastLine : line;
      },
    });
    clearInterval(alive);
    return result;
  }

  /**
   * A command that is one check: it passes when its exit status is 0.
   * @param {string} title @param {string} command @param {string[]} args @param {CommandSettings} settings
   * @returns {Promise<import('./results.mjs').Outcome>}
   */
  async check(title, command, args, settings) {
    const { failure, output } = await this.run(title, command, args, settings);
    return failure === undefined ? passed(title) : failed(title, `${failure}\n${lastLines(output)}`);
  }
}
