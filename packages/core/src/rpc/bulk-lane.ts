import type { Connection } from '../contract/connection.js';
import { isVerbmqError } from '../contract/errors.js';
import type { OutgoingLease } from '../contract/outgoing-lease.js';
import type { Backlog } from './backlog.js';
import { allocateUnfilled } from './body.js';
import { FRAME, HEADER_BYTES, PIECE_BYTES, TO_CALLER } from './protocol.js';

/** A large body on its way out. */
export interface Transfer {
  readonly toCaller: boolean;
  readonly id: number;
  readonly body: Uint8Array;
  offset: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Pieces that may wait for the transport at a time: one leaves while the next is being filled. */
const MAX_OUTSTANDING = 2;

/**
 * Buffers for pieces where the transport has no memory of its own to fill, for all connections of the process together. Fresh
 * memory for each piece would cost more than the copy into it.
 */
const MAX_SPARE = 8;
const spare: Uint8Array[] = [];

/**
 * Sends large bodies in pieces, one of each in turn, and hands the transport only a few at a time, so that other
 * calls go between them.
 */
export class BulkLane {
  readonly #connection: Connection;
  readonly #pieceBytes: number;
  readonly #backlog: Backlog;
  #queue: Transfer[] = [];
  #outstanding = 0;

  /**
   * @param pieceBytes the longest message to send.
   * @param backlog where the bytes count that have not been given to the transport yet.
   */
  constructor(connection: Connection, pieceBytes: number, backlog: Backlog) {
    this.#backlog = backlog;
    this.#connection = connection;
    this.#pieceBytes = pieceBytes - HEADER_BYTES;
  }

  /**
   * Sends `body`, which must not change until then. The promise resolves when the transport has taken all of it, or when
   * the transfer was cancelled.
   */
  add(toCaller: boolean, id: number, body: Uint8Array): { transfer: Transfer; sent: Promise<void> } {
    let transfer!: Transfer;
    const sent = new Promise<void>((resolve, reject) => {
      transfer = { toCaller, id, body, offset: 0, resolve, reject };
    });
    this.#backlog.add(body.byteLength, toCaller);
    this.#queue.push(transfer);
    this.#advance();
    return { transfer, sent };
  }

  /** Sends nothing more of it. `false`: nothing of it was left. */
  cancel(transfer: Transfer): boolean {
    const wasLeft = this.#remove(transfer);
    transfer.resolve();
    return wasLeft;
  }

  #remove(transfer: Transfer): boolean {
    const index = this.#queue.indexOf(transfer);
    if (index < 0) return false;
    this.#queue.splice(index, 1);
    this.#backlog.remove(transfer.body.byteLength - transfer.offset, transfer.toCaller);
    return true;
  }

  #advance(): void {
    while (this.#outstanding < MAX_OUTSTANDING) {
      const transfer = this.#queue[0];
      if (transfer === undefined) return;
      this.#sendPiece(transfer);
    }
  }

  #sendPiece(transfer: Transfer): void {
    const { body, offset } = transfer;
    const size = Math.min(this.#pieceBytes, body.byteLength - offset);
    const piece = new Uint8Array(body.buffer, body.byteOffset + offset, size);
    let memory: OutgoingLease | Uint8Array;
    let sending: Promise<void>;
    try {
      memory = this.#fill(transfer, piece);
      sending = this.#connection.send(memory);
    } catch (error) {
      this.#remove(transfer);
      transfer.reject(error);
      return;
    }
    this.#queue.shift();
    this.#backlog.remove(size, transfer.toCaller);
    transfer.offset += size;
    const last = transfer.offset === body.byteLength;
    if (!last) this.#queue.push(transfer);
    this.#outstanding++;
    sending.then(
      () => {
        // After a failure the transport may still be reading from it.
        if (memory instanceof Uint8Array) giveBack(memory);
        this.#outstanding--;
        if (last) transfer.resolve();
        this.#advance();
      },
      (error: unknown) => {
        this.#outstanding--;
        this.#remove(transfer);
        // Without its last piece a body has no effect, whatever became of the others.
        const isWhole = transfer.offset === body.byteLength;
        transfer.reject(isWhole || !isVerbmqError(error) ? error : error.withKnownOutcome());
        this.#advance();
      },
    );
  }

  /** A frame with a piece, in memory of the transport where it has some. */
  #fill({ toCaller, id }: Transfer, piece: Uint8Array): OutgoingLease | Uint8Array {
    const head = writeHead(toCaller ? FRAME.piece | TO_CALLER : FRAME.piece, id);
    const bytes = head.byteLength + piece.byteLength;
    const memory = this.#allocate(bytes);
    const data = memory instanceof Uint8Array ? memory : memory.data;
    data.set(head);
    data.set(piece, head.byteLength);
    return memory;
  }

  #allocate(bytes: number): OutgoingLease | Uint8Array {
    if (this.#connection.capabilities.zeroCopySend !== 'native') return takeSpare(bytes);
    try {
      return this.#connection.allocate(bytes);
    } catch (error) {
      // The transport's memory is in use. It takes ordinary memory as well, and holds us back until there is room.
      if (isVerbmqError(error, 'ERR_VERBMQ_NO_BUFFERS')) return takeSpare(bytes);
      throw error;
    }
  }
}

/** @param bytes at most {@link PIECE_BYTES} */
function takeSpare(bytes: number): Uint8Array {
  const whole = spare.pop() ?? allocateUnfilled(PIECE_BYTES);
  return bytes === PIECE_BYTES ? whole : new Uint8Array(whole.buffer, 0, bytes);
}

function giveBack(memory: Uint8Array): void {
  if (spare.length < MAX_SPARE) spare.push(new Uint8Array(memory.buffer));
}

function writeHead(type: number, id: number): Uint8Array {
  const head = [type, 0];
  let rest = id;
  while (rest >= 0x80) {
    head.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  head.push(rest);
  return Uint8Array.from(head);
}
