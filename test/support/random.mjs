/**
 * A stream of numbers from 0 to 1, 1 excluded, that follows from `seeds`.
 * @param {...number} seeds integers
 * @returns {() => number}
 */
export function randomFrom(...seeds) {
  let state = 0x6d2b79f5;
  for (const seed of seeds) state = scrambled(state + seed);
  return () => {
    state = (state + 0x9e3779b9) | 0;
    return (scrambled(state) >>> 0) / 2 ** 32;
  };
}

/** @param {number} bits the last step of MurmurHash3: each bit of the result depends on each of `bits` */
function scrambled(bits) {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
