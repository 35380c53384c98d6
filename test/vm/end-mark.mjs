import { Transform } from 'node:stream';

/**
 * Passes bytes on until the end mark, which it keeps to itself; then it ends. A port of a guest has no end of file of
 * its own: the mark says that the stream has arrived in full.
 */
export class EndMarkFilter extends Transform {
  /** @type {Buffer} */
  #mark;
  #held = Buffer.alloc(0);
  /** Whether the mark was seen. */
  complete = false;

  /** @param {string} mark not empty, and not to be expected in the stream */
  constructor(mark) {
    super();
    this.#mark = Buffer.from(mark);
  }

  /** @param {Buffer} chunk @param {string} _encoding @param {() => void} done */
  _transform(chunk, _encoding, done) {
    if (this.complete) {
      done();
      return;
    }
    const bytes = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk;
    const at = bytes.indexOf(this.#mark);
    if (at >= 0) {
      this.complete = true;
      this.push(bytes.subarray(0, at));
      this.push(null);
    } else {
      const held = this.#beginningOfMark(bytes);
      this.#held = Buffer.from(bytes.subarray(bytes.length - held));
      this.push(bytes.subarray(0, bytes.length - held));
    }
    done();
  }

  /** @param {() => void} done */
  _flush(done) {
    if (!this.complete) {
      this.push(this.#held);
    }
    done();
  }

  /** @param {Buffer} bytes @returns {number} how many of the last bytes may be the beginning of the mark */
  #beginningOfMark(bytes) {
    for (let count = Math.min(this.#mark.length - 1, bytes.length); count > 0; count--) {
      if (bytes.subarray(bytes.length - count).equals(this.#mark.subarray(0, count))) {
        return count;
      }
    }
    return 0;
  }
}
