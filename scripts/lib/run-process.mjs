/**
 * A child process with everything that it starts, a time limit, and its output.
 */

import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';

/** A process that was told to end has this long to do so. */
const endingLimitMs = 25_000;

/** How much of the output is kept, from its end. */
const keptCharacters = 200_000;

/** The processes that run now, by the id of their group. @type {Set<number>} */
const running = new Set();

/**
 * @typedef {object} RunSettings
 * @property {string} [cwd]
 * @property {NodeJS.ProcessEnv} [env]
 * @property {number} timeLimitMs
 * @property {string} [log] a file that receives all output
 * @property {(line: string) => void} [onLine] called for each line of stdout and stderr
 *
 * @typedef {object} RunResult
 * @property {number | undefined} status exit status; undefined when a signal ended it or it did not start
 * @property {string | undefined} failure what went wrong, in words; undefined when the status is 0
 * @property {boolean} timedOut
 * @property {string} output stdout and stderr as they came, the last 200,000 characters
 */

/**
 * Runs a command in a process group of its own. When it ends, by itself or by the limit, what is left of the group is
 * killed, so that nothing outlives this call.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {RunSettings} settings
 * @returns {Promise<RunResult>} never rejects
 */
export function runProcess(command, args, settings) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: settings.cwd,
      env: settings.env ?? process.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const group = child.pid;
    const log = settings.log === undefined ? undefined : createWriteStream(settings.log);
    let output = '';
    let timedOut = false;
    /** @type {string | undefined} */
    let failure;
    /** @type {NodeJS.Timeout | undefined} */
    let lastResort;

    for (const stream of [child.stdout, child.stderr]) {
      let partial = '';
      stream.setEncoding('utf8').on('data', (/** @type {string} */ text) => {
        log?.write(text);
        output = (output + text).slice(-keptCharacters);
        const lines = (partial + text).split('\n');
        partial = lines.pop() ?? '';
        for (const line of lines) {
          settings.onLine?.(line);
        }
      });
    }
    if (group !== undefined) {
      running.add(group);
    }
    const limit = setTimeout(() => {
      timedOut = true;
      signalGroup(group, 'SIGTERM');
      lastResort = setTimeout(() => signalGroup(group, 'SIGKILL'), endingLimitMs);
    }, settings.timeLimitMs);

    child.on('error', (error) => {
      failure = `${command} did not start: ${error.message}`;
    });
    // What it left behind could hold its pipes open, and 'close' would not come.
    child.on('exit', () => signalGroup(group, 'SIGKILL'));
    child.on('close', (status, signal) => {
      clearTimeout(limit);
      clearTimeout(lastResort);
      if (group !== undefined) {
        running.delete(group);
      }
      log?.end();
      if (timedOut) {
        failure = `the time limit of ${settings.timeLimitMs / 1000} s was over`;
      } else if (signal) {
        failure = `ended by ${signal}`;
      } else if (status !== 0) {
        failure ??= `exit status ${status}`;
      }
      resolve({ status: failure === undefined ? 0 : (status ?? undefined), failure, timedOut, output });
    });
  });
}

/** Ends every process that this module started and that still runs. */
export function endAllProcesses() {
  for (const group of running) {
    signalGroup(group, 'SIGKILL');
  }
}

/** @param {number | undefined} group @param {NodeJS.Signals} signal */
function signalGroup(group, signal) {
  try {
    if (group !== undefined) {
      process.kill(-group, signal);
    }
  } catch (error) {
    // Nobody is left in the group.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') {
      throw error;
    }
  }
}
