/**
 * A run of the command: one guest or two, the time limit, signals, the exit status.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { GuestError } from './guest-error.mjs';
import { GuestRun } from './guest-run.mjs';
import { LinePrefix } from './line-prefix.mjs';
import { answerCableRequest, Networks } from './networks.mjs';

/** For a command that was told to end to do so, and for its files to arrive. */
const endingLimitMs = 20_000;
/** With two guests: for the one command to end by itself after the other one has failed. */
const peerLimitMs = 30_000;

/**
 * @param {import('./options.mjs').GuestOptions} options
 * @param {string} image
 * @param {'kvm' | 'tcg'} accelerator
 * @returns {Promise<number>} exit status
 * @throws {GuestError}
 */
export async function runSession(options, image, accelerator) {
  const networks = options.hosts === 2 ? new Networks() : undefined;
  const roles = /** @type {const} */ (['a', 'b']).slice(0, options.hosts);
  /** @type {GuestRun[]} */
  const guests = roles.map(
    (role) =>
      new GuestRun({
        options,
        image,
        accelerator,
        role,
        network: networks ? networks.arguments(role) : ['-nic', 'none'],
        onCableRequest: (request) => answerCableRequest(guests, request),
        ...outputs(networks ? `[${role}] ` : ''),
      }),
  );
  /** @type {(error: GuestError) => void} */
  let fail = () => {};
  const failed = new Promise((_, reject) => {
    fail = reject;
  });

  let timeIsOver = false;
  const limit = setTimeout(async () => {
    timeIsOver = true;
    if (guests.every((guest) => guest.ready)) {
      for (const guest of guests) {
        guest.stop();
      }
      await delay(endingLimitMs, undefined, { ref: false });
    }
    fail(timeLimitError(options, guests));
  }, options.timeoutSeconds * 1000);
  const signals = handleSignals(guests, fail);
  try {
    await guests[0].boot();
    await networks?.listening(() => guests[0].machine?.running === true);
    await guests[1]?.boot();
    const statuses = await Promise.race([failed, Promise.all(guests.map((guest) => runOf(guest, guests)))]);
    if (timeIsOver) {
      throw timeLimitError(options, guests);
    }
    return Math.max(.../** @type {number[]} */ (statuses));
  } finally {
    clearTimeout(limit);
    signals.remove();
    await Promise.all(guests.map((guest) => guest.close()));
    networks?.remove();
  }
}

/** @param {string} prefix @returns {{stdout: NodeJS.WritableStream, stderr: NodeJS.WritableStream}} */
function outputs(prefix) {
  if (!prefix) {
    return { stdout: process.stdout, stderr: process.stderr };
  }
  const [stdout, stderr] = [new LinePrefix(prefix), new LinePrefix(prefix)];
  stdout.pipe(process.stdout, { end: false });
  stderr.pipe(process.stderr, { end: false });
  return { stdout, stderr };
}

/**
 * The run of one of several guests. When its command fails, the others wait in vain for it as a rule: they get a while
 * to find that out by themselves.
 * @param {GuestRun} guest @param {GuestRun[]} guests
 */
async function runOf(guest, guests) {
  const status = await guest.run();
  if (status !== 0) {
    const others = guests.filter((other) => other !== guest);
    setTimeout(() => others.forEach((other) => void other.stop()), peerLimitMs).unref();
  }
  return status;
}

/** @param {import('./options.mjs').GuestOptions} options @param {GuestRun[]} guests */
function timeLimitError(options, guests) {
  const report = guests.map((guest) => {
    const processes = guest.processes.map((line) => `  | ${line}`);
    return processes.length > 0
      ? `processes at that time:\n${processes.join('\n')}`
      : `the command ${guest.ready ? 'could not be ended' : 'had not started yet'}\n${guest.machine?.console.summary()}`;
  });
  return new GuestError(`the time limit of ${options.timeoutSeconds} s is over\n${report.join('\n')}`, 124);
}

/**
 * The first signal goes to the command, which may tidy up; a second one, or a command that does not end, ends the guests.
 * @param {GuestRun[]} guests @param {(error: GuestError) => void} fail
 */
function handleSignals(guests, fail) {
  const numbers = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 };
  let firstAt = 0;
  const handler = async (/** @type {'SIGINT' | 'SIGTERM' | 'SIGHUP'} */ signal) => {
    const error = new GuestError(`ended by ${signal}`, 128 + numbers[signal]);
    if (firstAt > 0) {
      // npm sends a Ctrl-C once more to the command that has it from the terminal already.
      if (Date.now() - firstAt > 500) {
        fail(error);
      }
      return;
    }
    firstAt = Date.now();
    if (!guests.every((guest) => guest.ready)) {
      fail(error);
      return;
    }
    for (const guest of guests) {
      guest.signal(signal === 'SIGINT' ? 'INT' : 'TERM');
    }
    await delay(endingLimitMs, undefined, { ref: false });
    fail(error);
  };
  const names = /** @type {(keyof typeof numbers)[]} */ (Object.keys(numbers));
  for (const name of names) {
    process.on(name, handler);
  }
  return {
    remove() {
      for (const name of names) {
        process.off(name, handler);
      }
    },
  };
}
