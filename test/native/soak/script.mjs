// What happens in a soak, as it follows from a seed: both ends know it without telling each other, so each knows every
// byte that has to come, and a failure can be repeated as far as the times of a device let it.
import { randomFrom } from '../../support/random.mjs';

/** Messages begin anywhere in so many bytes. */
const BEGINNINGS = 1024 * 1024;

/** @typedef {'client' | 'server'} Side the side that connected, or that accepted */

/**
 * @typedef {object} ScriptOptions all of them integers
 * @property {number} seed
 * @property {number} longestBytes of a message
 * @property {number} longestLife of a connection, in messages in each direction
 *
 * @typedef {object} Life how a connection goes
 * @property {number} messages in each direction
 * @property {Side} endedBy who closes, when everything has come, or aborts
 * @property {number | undefined} abortAt the message that is answered with an abort
 */

export class Script {
  /** @param {ScriptOptions} options */
  constructor({ seed, longestBytes, longestLife }) {
    this.seed = seed;
    this.longestBytes = longestBytes;
    this.longestLife = longestLife;
    const random = randomFrom(seed);
    const words = Uint32Array.from(
      { length: Math.ceil((longestBytes + BEGINNINGS) / 4) },
      () => random() * 2 ** 32,
    );
    this.bytes = new Uint8Array(words.buffer);
  }

  /** @param {number} connection its number @returns {Life} */
  life(connection) {
    const random = randomFrom(this.seed, connection);
    const messages = Math.ceil(this.longestLife ** random());
    return {
      messages,
      endedBy: random() < 0.5 ? 'client' : 'server',
      abortAt: random() < 0.25 ? Math.floor(random() * messages) : undefined,
    };
  }

  /**
   * Lengths are uniform in their logarithm: as many messages between 1 and 2 KiB as between 1 and 2 MiB. Were they uniform,
   * nearly all would be longer than 100 KiB, and the smallest would hardly ever meet.
   *
   * @param {number} connection @param {Side} from @param {number} n
   * @returns {Uint8Array} message `n`, a part of bytes that never change
   */
  message(connection, from, n) {
    const random = randomFrom(this.seed, connection, from === 'client' ? 1 : 2, n);
    const length = Math.floor((this.longestBytes + 2) ** random()) - 1;
    const begin = Math.floor(random() * BEGINNINGS);
    return this.bytes.subarray(begin, begin + length);
  }
}
