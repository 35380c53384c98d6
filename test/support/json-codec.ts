import type { Codec } from '@verbmq/core/codec';

/** A codec that knows nothing of rooms to write in, nor of headers before what it encodes but that it has to leave them room. */
export const json: Codec = {
  name: 'json',
  encode(value, reserve) {
    const text = Buffer.from(JSON.stringify(value));
    const bytes = new Uint8Array(reserve + text.length);
    bytes.set(text, reserve);
    return bytes;
  },
  decode: (bytes, start, end) => JSON.parse(Buffer.from(bytes.subarray(start, end)).toString()),
};
