/**
 * One QEMU process with its ports.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { ConsoleLog } from './console-log.mjs';

/**
 * @typedef {object} MachineSettings
 * @property {string} image directory with `vmlinux` and `initramfs`
 * @property {'kvm' | 'tcg'} accelerator
 * @property {string} directory private directory for the sockets
 * @property {number} memoryMib
 * @property {boolean} [quick] emulate what is emulated sooner, where processors of today have something else
 * @property {string[]} kernelWords words for the kernel's command line
 * @property {string[]} ports names of the virtio-serial ports
 * @property {string[]} [extra] further arguments for QEMU
 */

/** QEMU separates the parts of an option by commas. @param {string} text */
export const escapeComma = (text) => text.replaceAll(',', ',,');

/**
 * How QEMU is to emulate, and the words for the kernel that belong to it. An emulated processor does not say that its counter runs at one
 * rate, so the kernel would take the HPET, a device: each look at the clock would be a system call and an exit from the emulated code,
 * of which Node has several a wake-up and a program that reads the counter has none. It is the host's counter, which does run at
 * one rate; the kernel measures that against the HPET at each boot.
 *
 * An instruction that copies or clears bytes is emulated byte by byte. Processors of today are best at it and say so (ERMS), and then the
 * kernel and the C library use it for everything. One that does not say so has words copied instead, which is several times as quick here.
 */
const KVM = ['-accel', 'kvm', '-cpu', 'host'];
const TCG = ['-accel', 'tcg,thread=multi', '-cpu'];
const ACCELERATION = {
  kvm: { options: KVM, quickOptions: KVM, kernelWords: [] },
  tcg: {
    options: [...TCG, 'max'],
    quickOptions: [...TCG, 'max,-erms'],
    kernelWords: ['clocksource=tsc', 'tsc=reliable'],
  },
};

export class Machine {
  /** What the guest's kernel and its first programs printed. */
  console = new ConsoleLog();
  /** @type {Map<string, import('node:net').Socket>} */
  #sockets = new Map();
  /** @type {import('node:child_process').ChildProcess} */
  #qemu;
  #complaints = '';
  /** Resolves when QEMU has ended, with what it had to say about it. @type {Promise<string>} */
  ended;
  running = true;

  /** @param {import('node:child_process').ChildProcess} qemu */
  constructor(qemu) {
    this.#qemu = qemu;
    qemu.stderr?.setEncoding('utf8').on('data', (text) => {
      this.#complaints += text;
    });
    this.ended = new Promise((resolve) => {
      qemu.once('error', (error) => resolve(error.message));
      qemu.once('close', (code, signal) => {
        const how = signal ? `was ended by ${signal}` : `ended with status ${code}`;
        resolve(`QEMU ${how}${this.#complaints ? `: ${this.#complaints.trim()}` : ''}`);
      });
    });
    this.ended.then(() => {
      this.running = false;
    });
  }

  /**
   * Starts QEMU and waits until its ports are connected, or it has ended.
   * @param {MachineSettings} settings
   */
  static async start(settings) {
    // QEMU connects to us, so that no byte is lost and no socket is waited for.
    const names = ['console', 'monitor', ...settings.ports];
    const path = (/** @type {string} */ name) => join(settings.directory, `${name}.sock`);
    const servers = names.map((name) => ({ name, server: createServer().listen(path(name)) }));
    await Promise.all(servers.map(({ server }) => once(server, 'listening')));

    const { memoryMib, image } = settings;
    const { options, quickOptions, kernelWords: own } = ACCELERATION[settings.accelerator];
    const kernelWords = [...own, ...settings.kernelWords];
    const port = (/** @type {string} */ name) => [
      ...['-chardev', `socket,id=${name},path=${escapeComma(path(name))}`],
      ...['-device', `virtserialport,chardev=${name},name=verbmq.${name}`],
    ];
    const args = [
      ...['-machine', 'q35', '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
      ...(settings.quick ? quickOptions : options),
      ...['-smp', '2', '-m', String(memoryMib)],
      ...['-kernel', join(image, 'vmlinux'), '-initrd', join(image, 'initramfs')],
      ...[
        '-append',
        ['console=ttyS0', 'quiet', 'panic=-1', 'oops=panic', 'mitigations=off', ...kernelWords].join(' '),
      ],
      ...['-chardev', `socket,id=console,path=${escapeComma(path('console'))}`, '-serial', 'chardev:console'],
      ...[
        '-chardev',
        `socket,id=monitor,path=${escapeComma(path('monitor'))}`,
        '-mon',
        'chardev=monitor,mode=control',
      ],
      ...['-virtfs', 'local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap'],
      ...['-device', 'virtio-rng-pci', '-device', 'virtio-serial-pci'],
      ...settings.ports.flatMap(port),
      ...(settings.extra ?? []),
    ];
    // QEMU must not outlive us however we end, and a Ctrl-C in the terminal is not for it.
    const qemu = spawn('setpriv', ['--pdeathsig', 'KILL', 'qemu-system-x86_64', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    });
    const machine = new Machine(qemu);
    const connected = Promise.all(
      servers.map(async ({ name, server }) => {
        const [socket] = await once(server, 'connection');
        socket.on('error', () => {}); // The end of QEMU is reported by `ended`.
        machine.#sockets.set(name, socket);
        if (name === 'console') {
          socket.on('data', (/** @type {Buffer} */ bytes) => machine.console.add(bytes));
        }
        server.close();
      }),
    );
    await Promise.race([connected, machine.ended]);
    for (const { server } of servers) {
      server.close();
    }
    return machine;
  }

  /** @param {string} name @returns {import('node:net').Socket | undefined} undefined when QEMU did not come so far */
  port(name) {
    return this.#sockets.get(name);
  }

  /** Ends QEMU at once, and waits for it. */
  async kill() {
    if (this.running) {
      this.#qemu.kill('SIGKILL');
    }
    await this.ended;
    for (const socket of this.#sockets.values()) {
      socket.destroy();
    }
  }
}
