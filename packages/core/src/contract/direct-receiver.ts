/** @internal One large memory in which a transport has the messages that it receives, and views of all of it. */
export interface ReceiveMemory {
  readonly buffer: ArrayBufferLike;
  readonly bytes: Uint8Array;
  /** In words, for headers: each message begins at a multiple of four bytes. Only for hosts whose words are those of the wire. */
  readonly words: Int32Array;
  /**
   * A view of `bytes` bytes from `start` on, which lie in the message that has this token. The last one is used again where it
   * shows just these.
   */
  part(token: number, start: number, bytes: number): Uint8Array;
}

/** @internal Receives messages without a `Message` for each. It does not throw. */
export interface DirectReceiver {
  /** The receiver calls `releaseMessage` or `retainMessage`. */
  received(data: Uint8Array, token: number): void;
  /** A message of `bytes` bytes that lies at `at` in `memory`, which is used again when this returns: nobody calls `releaseMessage`. */
  receivedAt(memory: ReceiveMemory, at: number, bytes: number, token: number): void;
}
