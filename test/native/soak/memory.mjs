import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = /** @type {() => void} */ (runInNewContext('gc'));

/** @typedef {Pick<NodeJS.MemoryUsage, 'rss' | 'heapUsed' | 'arrayBuffers'>} Memory in bytes */

/**
 * What this process holds when nothing more is to be collected.
 * @returns {Promise<Memory>}
 */
export async function settledMemory() {
  for (let round = 0; round < 3; round++) {
    collectGarbage();
    // Buffers are freed by a task of their own, and finalizers run after it.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { rss, heapUsed, arrayBuffers } = process.memoryUsage();
  return { rss, heapUsed, arrayBuffers };
}

/**
 * @param {Memory} before @param {Memory} after
 * @returns {Memory} how much has been added
 */
export function growth(before, after) {
  return {
    rss: after.rss - before.rss,
    heapUsed: after.heapUsed - before.heapUsed,
    arrayBuffers: after.arrayBuffers - before.arrayBuffers,
  };
}
