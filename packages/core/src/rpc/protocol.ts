/**
 * The frames of rpc; docs/protocol-messaging.md describes each of them byte by byte. Each is one message of the connection:
 *
 * | frame | after type, flags and call id |
 * |---|---|
 * | `call` | method (its number, or where `NAMED` its name and that of the codec), [milliseconds left], [metadata], body |
 * | `cancel`, `end` | nothing |
 * | `item` | body |
 * | `credit` | bytes |
 * | `piece` | the next bytes of a body that was announced as `PARTIAL` |
 * | `result` | [metadata], body |
 * | `error` | [metadata], code, reason, message, [details as a body] |
 * | `methods` | (call id: the number of the first) the codec's name, names: what the server serves, and how it encodes. Each frame goes on where the one before ended. Methods behind one that does not fit into a message are not told of |
 *
 * Numbers are LEB128 of up to 53 bits, texts are UTF-8 behind their length in bytes. A body is the rest of the frame;
 * where `PARTIAL`, its length stands there instead, and pieces follow, so that a large body never keeps other calls
 * waiting. A `cancel`, and an `error`, may come before the last piece: then no more follow. Both sides may call each other on one connection: frames to the caller have the highest bit.
 */
export const FRAME = {
  call: 0x01,
  cancel: 0x02,
  item: 0x03,
  end: 0x04,
  credit: 0x05,
  piece: 0x06,
  result: 0x81,
  error: 0x82,
  itemToCaller: 0x83,
  creditToCaller: 0x85,
  pieceToCaller: 0x86,
  methods: 0x87,
} as const;

export const TO_CALLER = 0x80;

export const FLAG = {
  /** The body is a `Uint8Array`, not encoded. */
  raw: 0x01,
  metadata: 0x02,
  /** The body follows in pieces. */
  partial: 0x04,
  deadline: 0x08,
  /** The method is named, because its number is not known yet. */
  named: 0x10,
  /** The caller sends a stream. */
  streamIn: 0x20,
  /** The caller expects a stream. */
  streamOut: 0x40,
  /** In an `error`: it was thrown by the handler, and is not one of rpc itself. */
  thrown: 0x80,
} as const;

/** The version of all this; stands in the flags of `methods`. */
export const RPC_VERSION = 1;

/** What a stream may send before the receiver has granted more, in bytes. Each item costs {@link ITEM_OVERHEAD} besides. */
export const INITIAL_WINDOW = 64 * 1024;

/** What an item of a stream costs beyond its body, in bytes: else empty items would be free. */
export const ITEM_OVERHEAD = 64;

/** A header, call id and all, without metadata and names, is never longer, in bytes. */
export const HEADER_BYTES = 48;

/** The longest frame whose body is not in pieces, in bytes: longer ones would keep other calls waiting. */
export const FRAME_BYTES = 64 * 1024;

/**
 * The longest piece of a body, with its head, in bytes: a quarter of 1 MiB, for each costs a message and, where the transport is a
 * socket, half of a write. In memory that a transport has registered, where there is little of it, a piece is a frame like others.
 */
export const PIECE_BYTES = 256 * 1024 + HEADER_BYTES;

/** Connections whose messages are shorter cannot be used: there would be no room for the code of an error, or a piece of a body. */
export const LEAST_MESSAGE_BYTES = 256;

/** The most that metadata may hold, encoded, in bytes. */
export const MAX_METADATA_BYTES = 8 * 1024;

/** The most of a text that travels with an error, in bytes; the rest is cut off. */
export const MAX_ERROR_TEXT_BYTES = 8 * 1024;

/** The longest name of a method or a codec, in bytes, and the most methods that one side may serve. */
export const MAX_METHOD_BYTES = 255;
export const MAX_METHODS = 4096;
