import { Transform } from 'node:stream';

/** Puts a word before each line, so that the output of two guests can be told apart. */
export class LinePrefix extends Transform {
  #word;
  #rest = Buffer.alloc(0);

  /** @param {string} word */
  constructor(word) {
    super();
    this.#word = Buffer.from(word);
  }

  /** @param {Buffer} chunk @param {string} _encoding @param {() => void} done */
  _transform(chunk, _encoding, done) {
    const bytes = Buffer.concat([this.#rest, chunk]);
    let from = 0;
    for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, from)) {
      // In one piece: the other guest's lines go to the same place.
      this.push(Buffer.concat([this.#word, bytes.subarray(from, end + 1)]));
      from = end + 1;
    }
    this.#rest = bytes.subarray(from);
    done();
  }

  /** @param {() => void} done */
  _flush(done) {
    if (this.#rest.length > 0) {
      this.push(Buffer.concat([this.#word, this.#rest, Buffer.from('\n')]));
    }
    done();
  }
}
