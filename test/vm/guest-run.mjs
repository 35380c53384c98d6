/**
 * One guest that runs the command: its boot, its streams, its files, its end.
 */

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { EndMarkFilter } from './end-mark.mjs';
import { GuestError } from './guest-error.mjs';
import { Machine } from './machine.mjs';
import { QemuMonitor } from './qmp.mjs';
import { createRunDirectory } from './run-directory.mjs';

/** From the start of QEMU to the start of the command. Seen: 6 s alone, many times that on a busy machine. */
const bootLimitMs = 180_000;
/** The guest says that it is alive every 5 s. */
const silenceLimitMs = 120_000;
/** For the rest of the streams and for the files, after the command's end. */
const collectLimitMs = 60_000;

/**
 * @typedef {object} GuestRunSettings
 * @property {import('./options.mjs').GuestOptions} options
 * @property {string} image
 * @property {'kvm' | 'tcg'} accelerator
 * @property {'a' | 'b'} role
 * @property {string[]} network arguments for QEMU
 * @property {(request: string) => Promise<string>} onCableRequest answers a request of cable.mjs
 * @property {import('node:stream').Writable} stdout receives the command's output
 * @property {import('node:stream').Writable} stderr
 */

export class GuestRun {
  /** The processes that ran when `stop` was called. @type {string[]} */
  processes = [];
  /** @type {Machine | undefined} */
  machine;
  /** @type {QemuMonitor | undefined} */
  monitor;
  hasStarted = false;
  /** Called a while after the command in the other guest has failed. */
  onPeerFailure = () => {};
  #reportStart = () => {};
  /** Resolves when the command has started. @type {Promise<void>} */
  started = new Promise((resolve) => {
    this.#reportStart = resolve;
  });
  #hasEnded = false;
  #settings;
  #endMark = `\0${randomBytes(16).toString('hex')}\0`;
  #directory;
  /** @type {(error: GuestError) => void} */
  #fail = () => {};
  /** @type {NodeJS.Timeout | undefined} */
  #watchdog;

  /** @param {GuestRunSettings} settings */
  constructor(settings) {
    this.#settings = settings;
    this.role = settings.role;
    // A shell's word cannot hold a zero byte, printf's format can.
    const printable = this.#endMark.replaceAll('\0', '\\000');
    this.#directory = createRunDirectory(settings.options, settings.role, printable);
  }

  /** Starts QEMU. Separate from `run`, because the second guest connects to the first. */
  async boot() {
    const { image, accelerator, options, network } = this.#settings;
    this.machine = await Machine.start({
      image,
      accelerator,
      directory: this.#directory,
      memoryMib: options.memoryMib,
      quick: options.quick,
      kernelWords: [`verbmq.run=${this.#directory}`, `verbmq.driver=${options.driver}`],
      ports: ['status', 'control', 'out', 'err', 'files', 'cable'],
      extra: network,
    });
    const monitor = this.#port('monitor');
    this.monitor = monitor && new QemuMonitor(monitor);
    const cable = this.#port('cable');
    if (cable) {
      createInterface({ input: cable }).on('line', async (line) => {
        cable.write(`${await this.#settings.onCableRequest(line)}\n`);
      });
    }
  }

  /**
   * @returns {Promise<number>} the command's exit status, when its streams and files are here
   * @throws {GuestError} when the guest dies, falls silent or does not boot
   */
  async run() {
    const machine = /** @type {Machine} */ (this.machine);
    const failed = new Promise((_, reject) => {
      this.#fail = reject;
    });
    machine.ended.then((how) =>
      this.#fail(
        this.#report(
          machine.console.panic
            ? `the guest's kernel gave up: ${machine.console.panic}`
            : `the guest died: ${how}`,
        ),
      ),
    );
    const status = this.#port('status');
    if (!status) {
      return /** @type {never} */ (await failed);
    }
    this.#watch(bootLimitMs, 'did not boot');
    const exit = this.#exitStatus(status);
    const streams = [
      this.#forward('out', this.#settings.stdout),
      this.#forward('err', this.#settings.stderr),
    ];
    if (this.#settings.options.out !== undefined) {
      streams.push(this.#receiveFiles(this.#settings.options.out));
    }
    return /** @type {number} */ (
      await Promise.race([
        failed,
        exit.then(async (value) => {
          this.#hasEnded = true;
          this.#watch(collectLimitMs, 'did not deliver the rest of the output and the files');
          await Promise.all(streams);
          return value;
        }),
      ])
    );
  }

  /** Sends a signal to the command's process group. @param {'INT' | 'TERM'} signal */
  signal(signal) {
    this.#port('control')?.write(`${signal}\n`);
  }

  /** Has the guest list and kill the command's processes; `run` then ends as after any command. */
  stop() {
    this.#port('control')?.write('STOP\n');
  }

  /** Ends the guest at once. Idempotent. */
  async close() {
    clearTimeout(this.#watchdog);
    this.#fail = () => {};
    await this.machine?.kill();
  }

  /** @param {string} name */
  #port(name) {
    return this.machine?.port(name);
  }

  /** @param {string} text */
  #report(text) {
    return new GuestError(`${text}\n${this.machine?.console.summary()}`);
  }

  /** (Re)starts the watchdog. @param {number} limitMs @param {string} fault */
  #watch(limitMs, fault) {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => {
      const { stdout, stderr } = this.#settings;
      if (stdout.writableNeedDrain || stderr.writableNeedDrain) {
        // Whoever reads our output has paused; the guest's silence is our doing.
        this.#watch(limitMs, fault);
        return;
      }
      this.#fail(this.#report(`the guest ${fault} within ${limitMs / 1000} s`));
    }, limitMs);
  }

  /** @param {import('node:net').Socket} port @returns {Promise<number>} */
  #exitStatus(port) {
    return new Promise((resolve) => {
      createInterface({ input: port }).on('line', (line) => {
        const [word, ...rest] = line.split(' ');
        const text = rest.join(' ');
        if (word === 'exit') {
          resolve(Number(text));
        } else if (word === 'failed') {
          this.#fail(this.#report(`the guest could not be prepared: ${text}`));
        } else if (word === 'process') {
          this.processes.push(text);
        } else if (!this.#hasEnded) {
          this.hasStarted = true;
          this.#reportStart();
          this.#watch(silenceLimitMs, 'gave no sign of life');
        }
      });
    });
  }

  /** @param {string} name @param {import('node:stream').Writable} target */
  async #forward(name, target) {
    const filter = new EndMarkFilter(this.#endMark);
    this.#port(name)?.pipe(filter);
    filter.pipe(target, { end: target !== process.stdout && target !== process.stderr });
    await once(filter, 'end');
  }

  /** @param {string} out */
  async #receiveFiles(out) {
    const target = this.#settings.options.hosts === 2 ? join(out, this.#settings.role) : out;
    fs.mkdirSync(target, { recursive: true });
    const tar = spawn('tar', ['-x', '--no-same-owner', '-C', target], { stdio: ['pipe', 'ignore', 'pipe'] });
    const complaints = tar.stderr.setEncoding('utf8').toArray();
    tar.stdin.on('error', () => {}); // Its exit status tells.
    const filter = new EndMarkFilter(this.#endMark);
    this.#port('files')?.pipe(filter);
    filter.pipe(tar.stdin);
    const [status] = await once(tar, 'close');
    if (status !== 0) {
      this.#fail(
        this.#report(`the files could not be unpacked to ${target}: ${(await complaints).join('').trim()}`),
      );
    }
  }
}
