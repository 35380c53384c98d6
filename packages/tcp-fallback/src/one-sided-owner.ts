import type { MemoryRegions } from '@verbmq/core/transport-kit';
import { FrameType, HEADER_BYTES, MAX_PAYLOAD_BYTES, smallFrame } from './frame.js';
import { decodeRegion, oneSidedCharge, type Region, viewOf } from './one-sided-frames.js';
import type { Outbound } from './outbound.js';
import { protocolError } from './protocol-error.js';

/** Answers up to so many bytes are one piece of memory with their header. */
const INLINE_BYTES = 4 * 1024;

/**
 * The owner's side of one-sided operations: does for the peer what an RDMA device would do without this side's code.
 * What the peer may have in progress is bounded: a request counts from its arrival until its answer is on its way
 * into the socket, so a peer that asks without reading the answers cannot make them pile up here.
 */
export class OneSidedOwner {
  readonly #regions: MemoryRegions;
  readonly #outbound: Outbound;
  readonly #windowBytes: number;
  #inProgressBytes = 0;

  constructor(regions: MemoryRegions, outbound: Outbound, windowBytes: number) {
    this.#regions = regions;
    this.#outbound = outbound;
    this.#windowBytes = windowBytes;
  }

  /**
   * Carries out a request.
   * @throws VerbmqError `ERR_VERBMQ_REMOTE_ACCESS` for an access that is not allowed, `ERR_VERBMQ_PROTOCOL` for a
   *   malformed request or more work than the window allows.
   */
  request(type: number, payload: Uint8Array): void {
    const region = decodeRegion(payload);
    const charge = oneSidedCharge(region.length);
    if (this.#inProgressBytes + charge > this.#windowBytes) {
      throw protocolError(
        `it has more one-sided work in progress than the ${this.#windowBytes} bytes allowed`,
      );
    }
    this.#inProgressBytes += charge;
    const left = (): void => {
      this.#inProgressBytes -= charge;
    };
    if (type === FrameType.READ) this.#read(region, left);
    else if (type === FrameType.WRITE) this.#write(region, left);
    else this.#atomic(type, region, left);
  }

  #read({ key, offset, length, rest }: Region, left: () => void): void {
    if (rest.byteLength !== 0) throw protocolError('a READ request is followed by surplus bytes');
    if (length > MAX_PAYLOAD_BYTES) {
      throw protocolError(`a READ request asks for ${length} bytes; ${MAX_PAYLOAD_BYTES} are the most`);
    }
    // A copy, so that what leaves later cannot show what was written after a revoke.
    const data = this.#regions.read(key, offset, length);
    if (length <= INLINE_BYTES) {
      this.#outbound.oneSided(smallFrame(FrameType.READ_ANSWER, data), undefined, left);
      return;
    }
    const head = Buffer.allocUnsafe(HEADER_BYTES);
    head.writeUInt32LE(length, 0);
    head.writeUInt32LE(FrameType.READ_ANSWER, 4);
    this.#outbound.oneSided(head, Buffer.from(data), left);
  }

  #write({ key, offset, length, rest }: Region, left: () => void): void {
    if (rest.byteLength !== length) {
      throw protocolError(`a WRITE request announces ${length} bytes and brings ${rest.byteLength}`);
    }
    this.#regions.write(key, offset, rest);
    this.#outbound.oneSided(smallFrame(FrameType.WRITE_ANSWER), undefined, left);
  }

  #atomic(type: number, { key, offset, length, rest }: Region, left: () => void): void {
    const operands = type === FrameType.FETCH_ADD ? 1 : 2;
    if (length !== 8 || rest.byteLength !== operands * 8)
      throw protocolError('an atomic request is malformed');
    const view = viewOf(rest);
    const first = view.getBigUint64(0, true);
    const before =
      type === FrameType.FETCH_ADD
        ? this.#regions.fetchAdd(key, offset, first)
        : this.#regions.compareAndSwap(key, offset, first, view.getBigUint64(8, true));
    const answer = Buffer.allocUnsafe(8);
    answer.writeBigUInt64LE(before, 0);
    this.#outbound.oneSided(smallFrame(FrameType.ATOMIC_ANSWER, answer), undefined, left);
  }
}
