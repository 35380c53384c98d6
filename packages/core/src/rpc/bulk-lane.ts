import type { Connection } from '../contract/connection.js';
import { isVerbmqError } from '../contract/errors.js';
import { Line } from '../contract/line.js';
import { messageGone } from '../contract/memory.js';
import type { OutgoingLease } from '../contract/outgoing-lease.js';
import type { Backlog } from './backlog.js';
import { allocateUnfilled } from './body.js';
import { FRAME, HEADER_BYTES, PIECE_BYTES, TO_CALLER } from './protocol.js';

/** A large body on its way out. */
export interface Transfer {
  readonly toCaller: boolean;
  readonly id: number;
  readonly body: Uint8Array;
  /** Its length when it came: the program may transfer it meanwhile. */
  readonly bytes: number;
  offset: number;
  /** Sent, or called off: nothing more of it leaves. */
  over: boolean;
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
  /** Those that have pieces left, and whose turn it is. */
  readonly #queue = new Line<Transfer>();
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
   * Sends `body`, which must not change until then, when it was `announced`: so nothing of it stands in line while that may be
   * taken back. The promise resolves when the transport has taken all of it, or when the transfer was cancelled.
   */
  add(
    toCaller: boolean,
    id: number,
    body: Uint8Array,
    announced: true | Promise<void>,
  ): { transfer: Transfer; sent: Promise<void> } {
    let transfer!: Transfer;
    const sent = new Promise<void>((resolve, reject) => {
      transfer = { toCaller, id, body, bytes: body.byteLength, offset: 0, over: false, resolve, reject };
    });
    this.#backlog.add(body.byteLength, toCaller);
    if (announced === true) {
      this.#begin(transfer);
    } else {
      announced.then(
        () => this.#begin(transfer),
        (error: unknown) => this.#failed(transfer, error),
      );
    }
    return { transfer, sent };
  }

  /** Sends nothing more of it. `false`: nothing of it was left. */
  cancel(transfer: Transfer): boolean {
    const wasLeft = this.#remove(transfer);
    transfer.resolve();
    return wasLeft;
  }

  #begin(transfer: Transfer): void {
    if (transfer.over) return;
    this.#queue.add(transfer);
    this.#advance();
  }

  #remove(transfer: Transfer): boolean {
    if (transfer.over) return false;
    transfer.over = true;
    this.#queue.delete(transfer);
    this.#backlog.remove(transfer.bytes - transfer.offset, transfer.toCaller);
    return true;
  }

  #failed(transfer: Transfer, error: unknown): void {
    this.#remove(transfer);
    transfer.reject(error);
  }

  #advance(): void {
    while (this.#outstanding < MAX_OUTSTANDING) {
      const transfer = this.#queue.shift();
      if (transfer === undefined) return;
      this.#sendPiece(transfer);
    }
  }

  #sendPiece(transfer: Transfer): void {
    const { body, bytes, offset } = transfer;
    const size = Math.min(this.#pieceBytes, bytes - offset);
    let memory: OutgoingLease | Uint8Array;
    try {
      if (body.byteLength !== bytes) throw messageGone();
      memory = this.#fill(transfer, new Uint8Array(body.buffer, body.byteOffset + offset, size));
    } catch (error) {
      this.#failed(transfer, error);
      return;
    }
    this.#backlog.remove(size, transfer.toCaller);
    transfer.offset += size;
    const last = transfer.offset === bytes;
    if (last) transfer.over = true;
    else this.#queue.add(transfer);
    this.#outstanding++;
    this.#connection.send(memory).then(
      () => {
        // After a failure the transport may still be reading from it.
        if (memory instanceof Uint8Array) giveBack(memory);
        this.#outstanding--;
        if (last) transfer.resolve();
        this.#advance();
      },
      (error: unknown) => {
        this.#outstanding--;
        if (!(memory instanceof Uint8Array)) memory.release(); // where the connection did not even take it
        // Without its last piece a body has no effect, whatever became of the others.
        const isWhole = transfer.offset === bytes;
        this.#failed(transfer, isWhole || !isVerbmqError(error) ? error : error.withKnownOutcome());
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
