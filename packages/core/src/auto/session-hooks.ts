import type { KeptSends } from '../contract/kept-sends.js';

/** A path by its number: 0 is the base connection, and each fast connection of a session has the next number. */
export type PathNumber = number;
export const BASE: PathNumber = 0;

/**
 * What the session does to the world. None of it calls back into the session before it returns, but for the `takeBack` of `keepSent`,
 * which copies bytes and changes nothing else.
 */
export interface SessionHooks {
  /** Whether a path takes a frame now. When it does again after it did not, `pump` is called. */
  writable(path: PathNumber): boolean;
  /** Puts a frame on a writable path, behind all before. The bytes do not change while the frame is kept. */
  write(path: PathNumber, frame: Uint8Array): void;
  /** What writes short messages on a path, if it is there. It is used until the path is left. */
  shortWriter(path: PathNumber): ShortWriter | undefined;
  /** Puts a frame on the base connection, behind all before, whether that is writable or not. */
  control(frame: Uint8Array): void;
  /** Whether a fast connection is proved and, as far as this side knows, alive. */
  alive(path: PathNumber): boolean;
  /** Both sides have agreed: from now on data leaves on this path. */
  moved(path: PathNumber): void;
}

export interface SessionInit {
  /** What may be under way in each direction, in charges; agreed by both sides. */
  readonly windowBytes: number;
  /** What may wait here while no data leaves, with what the peer has not acknowledged. */
  readonly highWaterMarkBytes: number;
  /** Whether data never leaves on the base connection. Default false. */
  readonly requiresFast?: boolean;
  /** The number of the last frame before the first, of both directions; for tests of the wrap. Default 0. */
  readonly firstNumber?: number;
}

/** As `write` for a short message, without a frame made of it; see these methods of `Connection`. */
export interface ShortWriter {
  trySendBehindWords(a: number, b: number, c: number, d: number, data: Uint8Array): number;
  keepSent(takeBack: (sent: KeptSends) => void): void;
  giveBackSent(): void;
}

/** Makes room for the header of a frame, and a copy of its only message behind it, at `start` in `chunk`. */
export interface FrameCopies {
  readonly chunk: Uint8Array;
  readonly start: number;
  single(message: Uint8Array): void;
}
