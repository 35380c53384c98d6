import type { VerbmqError } from '../contract/errors.js';
import { Fifo } from '../contract/fifo.js';
import { type DescriptorFields, memoryGone } from '../contract/memory.js';
import type { MemoryRegions } from '../transport-kit/memory-regions.js';
import { FrameKind, getUint32, HEADER_BYTES, protocolError, putUint32 } from './frames.js';
import type { Session } from './session.js';

/**
 * One-sided operations travel as numbered frames, so each takes effect exactly once, whatever paths break meanwhile; the
 * owner's code does what an RDMA device would. The answers come in the order of the requests.
 *
 * OPERATION: operation u8, three zero bytes, length u32, offset u64, key (16 bytes), then what is to be written or the
 * operands of an atomic. ANSWER: what was read, or the value before.
 */
const Operation = { READ: 1, WRITE: 2, FETCH_ADD: 3, COMPARE_AND_SWAP: 4 } as const;
type OperationCode = (typeof Operation)[keyof typeof Operation];

const KEY_BYTES = 16;
const FIXED_BYTES = 16 + KEY_BYTES;

/** What one side may have asked for, in bytes, before the first of it is answered. */
export const OPERATION_WINDOW_BYTES = 1024 * 1024;
/** What each operation counts in that beside its bytes. */
export const OPERATION_OVERHEAD_BYTES = 64;

/** The longest read or write that travels in one frame. */
export const MAX_PIECE_BYTES = 64 * 1024;

interface Job {
  readonly operation: OperationCode;
  readonly remote: DescriptorFields;
  readonly offset: number;
  readonly length: number;
  /** What is written, or is read into. */
  readonly data: Uint8Array;
  asked: number;
  answered: number;
  readonly resolve: (value: Uint8Array) => void;
  readonly reject: (error: VerbmqError | TypeError) => void;
}

/** The side that asks. */
export class OneSidedRequester {
  readonly #session: Session;
  readonly #pieceBytes: number;
  readonly #jobs = new Fifo<Job>();
  readonly #pieces = new Fifo<{ readonly job: Job; readonly at: number; readonly length: number }>();
  #underWay = 0;

  /** @param frameBytes the longest frame that every path takes. */
  constructor(session: Session, frameBytes: number) {
    this.#session = session;
    this.#pieceBytes = Math.min(MAX_PIECE_BYTES, frameBytes - HEADER_BYTES - FIXED_BYTES);
  }

  async read(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    await this.#run(Operation.READ, remote, offset, target.byteLength, target);
  }

  async write(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    await this.#run(Operation.WRITE, remote, offset, data.byteLength, data);
  }

  fetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint> {
    return this.#atomic(Operation.FETCH_ADD, remote, offset, [addend]);
  }

  compareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    return this.#atomic(Operation.COMPARE_AND_SWAP, remote, offset, [expected, desired]);
  }

  /** An ANSWER has come. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  answered(frame: Uint8Array): void {
    const piece = this.#pieces.shift();
    if (piece === undefined) throw protocolError('an answer came to no question');
    const { job, at, length } = piece;
    const value = frame.subarray(HEADER_BYTES);
    if (value.length !== answerBytes(job.operation, length))
      throw protocolError('an answer has another length');
    this.#underWay -= length + OPERATION_OVERHEAD_BYTES;
    job.answered += length;
    if (isGone(job)) job.reject(memoryGone());
    // An array of no bytes may be of memory that was transferred, which `set` refuses whatever it is given.
    else if (job.operation === Operation.READ && length > 0) job.data.set(value, at);
    if (job.answered === job.length) job.resolve(isAtomic(job.operation) ? new Uint8Array(value) : job.data);
    this.#ask();
  }

  /** The connection has failed. Whether a change was made that was asked for, nobody knows. */
  fail(error: VerbmqError): void {
    const unknown = error.withUnknownOutcome();
    const jobs = new Set([...this.#pieces.takeAll().map(({ job }) => job), ...this.#jobs.takeAll()]);
    for (const job of jobs) {
      const changes = job.operation !== Operation.READ && job.asked > 0;
      job.reject(changes ? unknown : error.withKnownOutcome());
    }
  }

  async #atomic(
    operation: OperationCode,
    remote: DescriptorFields,
    offset: number,
    operands: bigint[],
  ): Promise<bigint> {
    const data = new Uint8Array(8 * operands.length);
    const view = new DataView(data.buffer);
    for (const [index, operand] of operands.entries()) view.setBigUint64(8 * index, operand, true);
    const before = await this.#run(operation, remote, offset, data.length, data);
    return new DataView(before.buffer, before.byteOffset, 8).getBigUint64(0, true);
  }

  #run(
    operation: OperationCode,
    remote: DescriptorFields,
    offset: number,
    length: number,
    data: Uint8Array,
  ): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#jobs.push({ operation, remote, offset, length, data, asked: 0, answered: 0, resolve, reject });
      this.#ask();
    });
  }

  #ask(): void {
    for (let job = this.#jobs.peek(); job !== undefined; job = this.#jobs.peek()) {
      do {
        if (this.#underWay >= OPERATION_WINDOW_BYTES) return;
        if (isGone(job)) {
          job.reject(memoryGone());
          break;
        }
        this.#askPiece(job);
      } while (job.asked < job.length);
      this.#jobs.shift();
    }
  }

  #askPiece(job: Job): void {
    const { operation, remote, data } = job;
    const at = job.asked;
    const length = Math.min(job.length - at, this.#pieceBytes);
    job.asked += length;
    this.#underWay += length + OPERATION_OVERHEAD_BYTES;
    this.#pieces.push({ job, at, length });
    const carried = operation === Operation.READ ? 0 : length;
    const frame = new Uint8Array(HEADER_BYTES + FIXED_BYTES + carried);
    const start = HEADER_BYTES;
    putUint32(frame, start, operation);
    putUint32(frame, start + 4, length);
    const offset = job.offset + (isAtomic(operation) ? 0 : at);
    putUint32(frame, start + 8, offset % 2 ** 32);
    putUint32(frame, start + 12, Math.floor(offset / 2 ** 32));
    frame.set(remote.key.subarray(0, KEY_BYTES), start + 16);
    if (carried > 0) frame.set(data.subarray(at, at + length), start + FIXED_BYTES);
    this.#session.submit(FrameKind.OPERATION, frame);
  }
}

/**
 * Does what an OPERATION asks for, and answers.
 * @throws VerbmqError `ERR_VERBMQ_REMOTE_ACCESS` where it is not allowed, `ERR_VERBMQ_PROTOCOL` where it makes no sense.
 */
export function serveOperation(session: Session, regions: MemoryRegions, frame: Uint8Array): void {
  const request = frame.subarray(HEADER_BYTES);
  if (request.length < FIXED_BYTES) throw protocolError('an operation is too short');
  const operation = getUint32(request, 0) as OperationCode; // with the three bytes that are 0
  const length = getUint32(request, 4);
  const offset = getUint32(request, 8) + getUint32(request, 12) * 2 ** 32;
  const key = request.subarray(16, FIXED_BYTES);
  const data = request.subarray(FIXED_BYTES);
  if (length > MAX_PIECE_BYTES || data.length !== (operation === Operation.READ ? 0 : length))
    throw protocolError('an operation has another length');
  const answer = new Uint8Array(HEADER_BYTES + answerBytes(operation, length));
  const operand = (index: number): bigint =>
    new DataView(data.buffer, data.byteOffset, data.length).getBigUint64(8 * index, true);
  const before = (value: bigint): void =>
    new DataView(answer.buffer, answer.byteOffset).setBigUint64(HEADER_BYTES, value, true);
  if (operation === Operation.READ) answer.set(regions.read(key, offset, length), HEADER_BYTES);
  else if (operation === Operation.WRITE) regions.write(key, offset, data);
  else if (operation === Operation.FETCH_ADD && length === 8)
    before(regions.fetchAdd(key, offset, operand(0)));
  else if (operation === Operation.COMPARE_AND_SWAP && length === 16)
    before(regions.compareAndSwap(key, offset, operand(0), operand(1)));
  else throw protocolError(`there is no operation ${operation} of ${length} bytes`);
  session.submit(FrameKind.ANSWER, answer);
}

/** Whether the application has transferred the memory of an operation that is not done: it gets an error, and the next one its turn. */
function isGone({ data, length }: Job): boolean {
  return data.byteLength !== length;
}

function isAtomic(operation: OperationCode): boolean {
  return operation === Operation.FETCH_ADD || operation === Operation.COMPARE_AND_SWAP;
}

function answerBytes(operation: OperationCode, length: number): number {
  if (operation === Operation.READ) return length;
  return operation === Operation.WRITE ? 0 : 8;
}
