/**
 * For commands inside of a guest: pulls and plugs network cables.
 *
 * With two guests the machine's QEMU does it, and both ends lose their carrier. With one guest the cable is the veth
 * pair under the RDMA device: the carrier goes, but a connection from the guest to its own address does not use it.
 *
 * As a program: node test/vm/cable.mjs cut|restore [cable|lan]
 */

import { execFile } from 'node:child_process';
import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** @typedef {'cable' | 'lan'} NetworkName `cable` has the RDMA device; `lan` exists with two guests only. */

/**
 * Cuts a network. Resolves when it is cut.
 * @param {NetworkName} [network]
 */
export function cut(network = 'cable') {
  return request('cut', network);
}

/**
 * Restores a network. Resolves when it is plugged in; the carrier follows a moment later.
 * @param {NetworkName} [network]
 */
export function restore(network = 'cable') {
  return request('restore', network);
}

/** @param {'cut' | 'restore'} word @param {NetworkName} network */
async function request(word, network) {
  const path = process.env.VERBMQ_GUEST_CABLE;
  if (!path) {
    throw new Error('cables can be cut only in a guest: npm run guest -- COMMAND');
  }
  if (process.env.VERBMQ_GUEST_HOSTS === '1') {
    if (network !== 'cable') {
      throw new Error(`one guest alone has no network ${network}`);
    }
    await promisify(execFile)('/bin/ip', ['link', 'set', 'vb', word === 'cut' ? 'down' : 'up']);
    return;
  }
  const port = await openPort(path);
  try {
    await port.write(`${word} ${network}\n`);
    const { bytesRead, buffer } = await port.read(Buffer.alloc(1024), 0, 1024, null);
    const answer = buffer.toString('utf8', 0, bytesRead).trim();
    if (answer !== 'done') {
      throw new Error(`the cable could not be ${word === 'cut' ? 'cut' : 'restored'}: ${answer}`);
    }
  } finally {
    await port.close();
  }
}

/** Only one process at a time can open a port: another one's request is over soon. @param {string} path */
async function openPort(path) {
  for (;;) {
    try {
      return await open(path, 'r+');
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EBUSY') {
        throw error;
      }
      await delay(20);
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [word, network = 'cable'] = process.argv.slice(2);
  if ((word !== 'cut' && word !== 'restore') || (network !== 'cable' && network !== 'lan')) {
    throw new Error('usage: node test/vm/cable.mjs cut|restore [cable|lan]');
  }
  await request(word, network);
}
