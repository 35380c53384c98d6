/**
 * The networks between two guests: `cable`, which carries the RDMA device, and `lan`, an ordinary network beside it.
 * Either can be cut and restored, as if somebody pulled the plug.
 */

import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { escapeComma } from './machine.mjs';
import { temporaryDirectory } from './temporary-directory.mjs';

const networkNames = /** @type {const} */ (['cable', 'lan']);

export class Networks {
  #directory = temporaryDirectory();

  /** @param {string} name */
  #socket(name) {
    return join(this.#directory, `${name}.sock`);
  }

  /**
   * @param {'a' | 'b'} role `a` listens, so that it has to be started first
   * @returns {string[]} arguments for QEMU; the guest sees eth0 (cable) and eth1 (lan)
   */
  arguments(role) {
    return networkNames.flatMap((name, index) => [
      '-netdev',
      `stream,id=${name},server=${role === 'a' ? 'on' : 'off'},addr.type=unix,addr.path=${escapeComma(this.#socket(name))}`,
      '-device',
      // The MTU of the cable leaves room for RDMA packets of 4096 bytes. Nobody boots from these: no firmware for that.
      `virtio-net-pci,netdev=${name},mac=52:54:00:77:0${index}:0${role},host_mtu=${name === 'cable' ? 4200 : 1500},romfile=`,
    ]);
  }

  /**
   * Waits until `a` listens.
   * @param {() => boolean} running whether `a` still runs
   */
  async listening(running) {
    while (running() && !networkNames.every((name) => fs.existsSync(this.#socket(name)))) {
      await delay(20);
    }
  }
}

/**
 * Cuts or restores a network on every guest: both ends lose their carrier.
 * @param {import('./guest-run.mjs').GuestRun[]} guests
 * @param {string} request as cable.mjs sends it
 * @returns {Promise<string>} the answer that cable.mjs expects
 */
export async function answerCableRequest(guests, request) {
  const [, word, name] = /^(cut|restore) (\w+)$/.exec(request) ?? [];
  if (!networkNames.some((known) => known === name)) {
    return `refused: not understood: ${request}`;
  }
  try {
    await Promise.all(
      guests.map((guest) => guest.monitor?.execute('set_link', { name, up: word === 'restore' })),
    );
    return 'done';
  } catch (error) {
    return `refused: ${/** @type {Error} */ (error).message}`;
  }
}
