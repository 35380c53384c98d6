// What messages cost beside their bytes: calls into the addon, calls out of it, memory that the addon allocates, memory of
// array buffers. To be imported before the first transport is made.
import { openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { loadAddon } from '../../../packages/native/dist/load-addon.js';

/** Three integers of 64 bits: allocations.cc. */
const COUNTS = openSync(/** @type {string} */ (process.env.VERBMQ_ALLOCATIONS), 'r+');
const word = new BigUint64Array(1);
const wordBytes = new Uint8Array(word.buffer);

const { addon } = loadAddon();
if (addon === undefined) throw new Error('the addon is not built');

const code = readFileSync('/proc/self/maps', 'utf8')
  .split('\n')
  .find((line) => / r-xp .*verbmq_native\.node$/.test(line));
const [begin, end] = /** @type {string} */ (code).split(' ', 1)[0].split('-');
for (const [at, address] of [begin, end].entries()) {
  word[0] = BigInt(`0x${address}`);
  writeSync(COUNTS, wordBytes, 0, 8, 8 * (at + 1));
}

let calls = 0;
let deliveries = 0;
const Plain = addon.Engine;

class CountingEngine extends Plain {
  /** @param {import('../../../packages/native/dist/binding.js').EngineOptions} options @param {() => void} dispatch */
  constructor(options, dispatch) {
    super(options, () => {
      deliveries++;
      dispatch();
    });
  }
}
for (const name of Object.getOwnPropertyNames(Plain.prototype)) {
  if (name === 'constructor') continue;
  Object.defineProperty(CountingEngine.prototype, name, {
    /** @param {unknown[]} values */
    value(...values) {
      calls++;
      return /** @type {Record<string, Function>} */ (/** @type {unknown} */ (Plain.prototype))[name].apply(
        this,
        values,
      );
    },
  });
}
Object.defineProperty(addon, 'Engine', { value: CountingEngine });

/**
 * @typedef {object} Costs
 * @property {number} calls of the addon
 * @property {number} deliveries calls by the addon
 * @property {number} allocations by the addon
 * @property {number} bufferBytes of array buffers, more than before
 */

/** @returns {Costs} since the start of the process */
export function costs() {
  const { arrayBuffers: bufferBytes } = process.memoryUsage();
  readSync(COUNTS, wordBytes, 0, 8, 0);
  return { calls, deliveries, allocations: Number(word[0]), bufferBytes };
}

/** @param {Costs} before @param {Costs} after @returns {Costs} */
export function difference(before, after) {
  return {
    calls: after.calls - before.calls,
    deliveries: after.deliveries - before.deliveries,
    allocations: after.allocations - before.allocations,
    bufferBytes: after.bufferBytes - before.bufferBytes,
  };
}
