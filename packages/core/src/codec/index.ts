/**
 * How values become bytes: MessagePack by default, and what it takes to plug in another encoding.
 * @module
 */
export { type Codec, MAX_BORROWED_BYTES, MAX_RESERVE } from './codec.js';
export { MsgpackCodec, type MsgpackCodecOptions } from './msgpack-codec.js';
