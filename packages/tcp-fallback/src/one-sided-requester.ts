import type { VerbmqError } from '@verbmq/core';
import type { DescriptorFields } from '@verbmq/core/transport-kit';
import { Fifo, memoryGone } from '@verbmq/core/transport-kit';
import { FrameType } from './frame.js';
import { oneSidedCharge, pieceBytes, requestHead, viewOf } from './one-sided-frames.js';
import type { Outbound } from './outbound.js';
import { protocolError } from './protocol-error.js';

/** An operation of the application. Long reads and writes are asked for piece by piece. */
interface Operation {
  readonly request: number;
  readonly answer: number;
  readonly key: Uint8Array;
  readonly offset: bigint;
  readonly length: number;
  readonly operands: readonly bigint[];
  /** What a read fills, or what a write takes its data from. */
  readonly bytes: Uint8Array;
  askedBytes: number;
  answeredBytes: number;
  asked: boolean;
  readonly resolve: (value: bigint) => void;
  readonly reject: (error: VerbmqError | TypeError) => void;
}

/** A request whose answer has not come. */
interface Piece {
  readonly operation: Operation;
  readonly length: number;
  receivedBytes: number;
}

const NONE = new Uint8Array(0);

/**
 * The asking side of one-sided operations. It keeps no more in progress than the owner's window allows; what exceeds
 * it waits here, first come first served.
 */
export class OneSidedRequester {
  readonly #outbound: Outbound;
  readonly #pieceBytes: number;
  #credit: number;
  readonly #waiting = new Fifo<Operation>();
  readonly #pending = new Fifo<Piece>();
  /** Of a connection that is dead: writes from whose data the socket may still read, and the error for them. */
  readonly #lenders: Operation[] = [];
  #error: VerbmqError | undefined;

  /** @param windowBytes what the owner allows. */
  constructor(outbound: Outbound, windowBytes: number) {
    this.#outbound = outbound;
    this.#credit = windowBytes;
    this.#pieceBytes = pieceBytes(windowBytes);
  }

  async read(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    await this.#run(FrameType.READ, FrameType.READ_ANSWER, remote, offset, target.byteLength, target, []);
  }

  async write(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    await this.#run(FrameType.WRITE, FrameType.WRITE_ANSWER, remote, offset, data.byteLength, data, []);
  }

  /** Answers the value before. */
  atomic(
    type: number,
    remote: DescriptorFields,
    offset: number,
    operands: readonly bigint[],
  ): Promise<bigint> {
    return this.#run(type, FrameType.ATOMIC_ANSWER, remote, offset, 8, NONE, operands);
  }

  /** An answer begins. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` when it is not the one that must come next. */
  begin(type: number, length: number): void {
    const piece = this.#pending.peek();
    if (piece === undefined || piece.operation.answer !== type) {
      throw protocolError('it answered a one-sided request that nobody made');
    }
    if (type === FrameType.READ_ANSWER && piece.length !== length) {
      throw protocolError(`it answered a READ of ${piece.length} bytes with ${length}`);
    }
  }

  /** A WRITE_ANSWER or ATOMIC_ANSWER is complete. */
  answer(type: number, payload: Uint8Array): void {
    this.#answered(type === FrameType.ATOMIC_ANSWER ? viewOf(payload).getBigUint64(0, true) : 0n);
  }

  /** More of a READ_ANSWER. */
  stream(chunk: Uint8Array, start: number, end: number): void {
    const piece = this.#pending.peek() as Piece;
    const { operation } = piece;
    // An array of no bytes may be of memory that was transferred, which `set` refuses whatever it is given.
    if (end > start && !isGone(operation))
      operation.bytes.set(chunk.subarray(start, end), operation.answeredBytes + piece.receivedBytes);
    piece.receivedBytes += end - start;
    if (piece.receivedBytes === piece.length) this.#answered(0n);
  }

  /**
   * The connection is dead: nobody knows which writes and atomics took effect, once they had been asked for.
   * @param writing the socket may still read what is to be written: whoever lent that is told by `end`
   */
  fail(error: VerbmqError, writing: boolean): void {
    const operations = new Set([
      ...this.#pending.takeAll().map((piece) => piece.operation),
      ...this.#waiting.takeAll(),
    ]);
    const unknown = error.withUnknownOutcome();
    this.#error = unknown;
    for (const operation of operations) {
      const { request, asked, reject } = operation;
      if (writing && asked && request === FrameType.WRITE) this.#lenders.push(operation);
      else reject(asked && request !== FrameType.READ ? unknown : error);
    }
  }

  /** The socket is gone. */
  end(): void {
    for (const { reject } of this.#lenders.splice(0)) reject(this.#error as VerbmqError);
  }

  #run(
    request: number,
    answer: number,
    remote: DescriptorFields,
    offset: number,
    length: number,
    bytes: Uint8Array,
    operands: readonly bigint[],
  ): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        request,
        answer,
        key: remote.key,
        offset: BigInt.asUintN(64, remote.address + BigInt(offset)),
        length,
        operands,
        bytes,
        askedBytes: 0,
        answeredBytes: 0,
        asked: false,
        resolve,
        reject,
      });
      this.#ask();
    });
  }

  /** Asks for as much as the owner allows. */
  #ask(): void {
    for (let operation = this.#waiting.peek(); operation !== undefined; operation = this.#waiting.peek()) {
      if (isGone(operation)) {
        operation.reject(memoryGone());
        this.#waiting.shift();
        continue;
      }
      const length = Math.min(operation.length - operation.askedBytes, this.#pieceBytes);
      const charge = oneSidedCharge(length);
      if (charge > this.#credit) return;
      this.#credit -= charge;
      this.#askPiece(operation, length);
      if (operation.askedBytes === operation.length) this.#waiting.shift();
    }
  }

  #askPiece(operation: Operation, length: number): void {
    const from = operation.askedBytes;
    const isWrite = operation.request === FrameType.WRITE;
    const head = requestHead(
      operation.request,
      operation.key,
      BigInt.asUintN(64, operation.offset + BigInt(from)),
      length,
      operation.operands,
      isWrite ? length : 0,
    );
    operation.asked = true;
    operation.askedBytes += length;
    this.#pending.push({ operation, length, receivedBytes: 0 });
    this.#outbound.oneSided(
      head,
      isWrite && length > 0 ? operation.bytes.subarray(from, from + length) : undefined,
    );
  }

  #answered(value: bigint): void {
    const { operation, length } = this.#pending.shift() as Piece;
    this.#credit += oneSidedCharge(length);
    operation.answeredBytes += length;
    if (isGone(operation)) operation.reject(memoryGone());
    else if (operation.answeredBytes === operation.length) operation.resolve(value);
    this.#ask();
  }
}

/** Whether the application has transferred the memory of an operation that is not done: it gets an error, and the next one its turn. */
function isGone({ bytes, length, operands }: Operation): boolean {
  return operands.length === 0 && bytes.byteLength !== length;
}
