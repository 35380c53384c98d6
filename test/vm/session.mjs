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
 * @param {(text: string) => void} log
 * @returns {Promise<number>} exit status
 * @throws {GuestError}
 */
export async function runSession(options, image, accelerator, log) {
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
  const signals = handleSignals(guests, fail);
  /** @type {NodeJS.Timeout | undefined} */
  let limit;
  let timeIsOver = false;

  const run = async () => {
    await guests[0].boot();
    await networks?.listening(() => guests[0].machine?.running === true);
    await guests[1]?.boot();
    const statuses = guests.map((guest) => statusOf(guest, guests, log));
    // Both at once: the first guest may fail while the second one boots.
    await Promise.race([Promise.all(guests.map((guest) => guest.started)), Promise.all(statuses)]);
    limit = setTimeout(async () => {
      timeIsOver = true;
      for (const guest of guests) {
        guest.stop();
      }
      await delay(endingLimitMs, undefined, { ref: false });
      fail(timeLimitError(options, guests));
    }, options.timeoutSeconds * 1000);
    return Math.max(...(await Promise.all(statuses)));
  };
  try {
    const status = await Promise.race([/** @type {Promise<never>} */ (failed), run()]);
    if (timeIsOver) {
      throw timeLimitError(options, guests);
    }
    return status;
  } finally {
    clearTimeout(limit);
    signals.remove();
    await Promise.all(guests.map((guest) => guest.close()));
  }
}

/** @param {string} prefix @returns {Record<'stdout' | 'stderr', import('node:stream').Writable>} */
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
 * The exit status of one of several guests. When its command fails, the other one waits in vain for it as a rule: it
 * gets a while to find that out by itself, then it is ended, and what it returns no longer counts.
 * @param {GuestRun} guest @param {GuestRun[]} guests @param {(text: string) => void} log
 */
async function statusOf(guest, guests, log) {
  let endedByPeer = false;
  guest.onPeerFailure = () => {
    endedByPeer = true;
    log(
      `the command in guest ${guest.role} is ended, since the other one failed ${peerLimitMs / 1000} s ago`,
    );
    guest.stop();
  };
  const status = await guest.run();
  guest.onPeerFailure = () => {};
  if (status !== 0) {
    for (const other of guests.filter((candidate) => candidate !== guest)) {
      setTimeout(() => other.onPeerFailure(), peerLimitMs).unref();
    }
  }
  return endedByPeer ? 0 : status;
}

/** @param {import('./options.mjs').GuestOptions} options @param {GuestRun[]} guests */
function timeLimitError(options, guests) {
  const report = guests.map((guest) =>
    guest.processes.length > 0
      ? ['processes at that time:', ...guest.processes.map((line) => `  | ${line}`)].join('\n')
      : `the guest did not answer\n${guest.machine?.console.summary()}`,
  );
  const text = `the command was ended: its time limit of ${options.timeoutSeconds} s is over`;
  return new GuestError([text, ...report].join('\n'), 124);
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
    if (!guests.every((guest) => guest.hasStarted)) {
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
