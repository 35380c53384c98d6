import { VerbmqError } from '@verbmq/core';
import {
  allEnded,
  type DescriptorFields,
  type ExposedByTransport,
  type ResolvedMemoryAccess,
  type TransferPiece,
} from '@verbmq/core/transport-kit';
import { AtomicOrder } from './atomic-order.js';
import { type ConnectionDescription, EventKind, type Handle, SubmissionKind } from './binding.js';
import { type MemoryKey, verifyKey } from './descriptor-key.js';
import { ExposedMemories, placeOfExposure } from './exposed-memory.js';
import { type MemoryNote, MemoryNotes, NOTE_BYTES, NoteKind, noteOf } from './memory-notes.js';
import { OneSidedOperations, type Operation } from './one-sided-operations.js';
import { ProofWord } from './proof-word.js';
import type { RdmaEngine } from './rdma-engine.js';

/**
 * Exposed memory of one connection, in both directions. The devices read and write it without this side's code; atomic
 * operations too where both have them, else the owner's code does those, asked by a note.
 */
export class OneSidedMemory {
  readonly support: 'native' | 'none';
  readonly atomics: 'native' | 'emulated' | 'none';
  readonly #peerSecret: Uint8Array;
  readonly #failed: (error: VerbmqError) => void;
  readonly #exposed: ExposedMemories;
  readonly #operations: OneSidedOperations;
  readonly #notes: MemoryNotes;
  readonly #proofWord: ProofWord;
  readonly #atomicOrder: AtomicOrder;
  readonly #iwarp: boolean;
  /** Descriptors that were verified. */
  readonly #keys = new WeakMap<DescriptorFields, MemoryKey>();
  /** The last number of each place that the peer has revoked. */
  readonly #revoked = new Map<number, number>();

  /** @param failed the peer has broken a rule, or this side would: the connection is to end */
  constructor(
    engine: RdmaEngine,
    handle: Handle,
    description: ConnectionDescription,
    failed: (error: VerbmqError) => void,
  ) {
    const { iwarp, readDepth, atomics, secret, peerSecret, peerSlotBytes, forkHidesPages } = description;
    const frameBytes = peerSlotBytes - engine.addon.layout.headerBytes;
    this.support = readDepth > 0 && frameBytes >= NOTE_BYTES ? 'native' : 'none';
    this.atomics = this.support === 'none' ? 'none' : atomics ? 'native' : 'emulated';
    this.#peerSecret = peerSecret;
    this.#failed = failed;
    this.#notes = new MemoryNotes(engine, handle, frameBytes);
    this.#operations = new OneSidedOperations(engine, handle, !forkHidesPages);
    this.#proofWord = new ProofWord(this.#notes);
    this.#atomicOrder = new AtomicOrder(this.#proofWord, this.#operations);
    this.#iwarp = iwarp;
    this.#exposed = new ExposedMemories({
      engine,
      handle,
      secret,
      nativeAtomics: this.atomics === 'native',
      mayBorrow: !forkHidesPages,
      tellRevoked: (number) => this.#tellRevoked(number),
    });
  }

  get registeredBytes(): number {
    return this.#exposed.registeredBytes + this.#operations.registeredBytes;
  }

  expose(memory: number | Uint8Array, access: ResolvedMemoryAccess): ExposedByTransport {
    return this.#exposed.expose(memory, access);
  }

  read(remote: DescriptorFields, offset: number, target: Uint8Array): Promise<void> {
    return this.#transfer(SubmissionKind.read, remote, offset, target);
  }

  readv(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    return this.#transferAll(SubmissionKind.read, remote, pieces);
  }

  write(remote: DescriptorFields, offset: number, data: Uint8Array): Promise<void> {
    const written = this.#transfer(SubmissionKind.write, remote, offset, data);
    return data.byteLength === 0 ? written : this.#placed(written);
  }

  writev(remote: DescriptorFields, pieces: readonly TransferPiece[]): Promise<void> {
    const written = this.#transferAll(SubmissionKind.write, remote, pieces);
    return pieces.every(({ view }) => view.byteLength === 0) ? written : this.#placed(written);
  }

  /**
   * With InfiniBand and RoCE a write is complete when the peer's device has acknowledged it. With iWARP it is when the data
   * have been given to TCP; what is read behind it comes back only when the write has been placed (RFC 5040, section 5.5).
   */
  async #placed(written: Promise<void>): Promise<void> {
    if (!this.#iwarp) return written;
    const [outcome, confirmation] = await Promise.allSettled([written, this.#readProof()]);
    if (outcome.status === 'rejected') throw outcome.reason;
    if (confirmation.status === 'rejected') throw (confirmation.reason as VerbmqError).withUnknownOutcome();
  }

  async #readProof(): Promise<void> {
    const place = await this.#proofWord.place();
    await this.#operations.run({ ...place, kind: SubmissionKind.read, view: new Uint8Array(8) });
  }

  async fetchAdd(remote: DescriptorFields, offset: number, addend: bigint): Promise<bigint> {
    const key = this.#keyOf(remote);
    const { number } = key;
    if (this.atomics === 'emulated') {
      return this.#notes.ask(noteOf(NoteKind.fetchAdd, { number, offset, first: addend }));
    }
    return this.#atomicOrder.run({
      ...this.#place(remote, key, offset),
      kind: SubmissionKind.fetchAdd,
      view: undefined,
      operand: addend,
    });
  }

  async compareAndSwap(
    remote: DescriptorFields,
    offset: number,
    expected: bigint,
    desired: bigint,
  ): Promise<bigint> {
    const key = this.#keyOf(remote);
    const { number } = key;
    if (this.atomics === 'emulated') {
      return this.#notes.ask(
        noteOf(NoteKind.compareAndSwap, { number, offset, first: expected, second: desired }),
      );
    }
    return this.#atomicOrder.run({
      ...this.#place(remote, key, offset),
      kind: SubmissionKind.compareAndSwap,
      view: undefined,
      operand: expected,
      swap: desired,
    });
  }

  /** What the engine reports. */
  eventArrived(kind: number): void {
    try {
      if (kind === EventKind.operationDone) this.#operations.completed();
      else if (kind === EventKind.answer) this.#notes.answerArrived();
      else this.#notes.notesArrived((note) => this.#answer(note));
    } catch (error) {
      if (!(error instanceof VerbmqError)) throw error;
      this.#failed(error);
    }
  }

  /** The connection is dead, and its queue pair may still be there. */
  fail(error: VerbmqError): void {
    this.#operations.fail(error);
    const { asked, waiting } = this.#notes.end();
    for (const { note, resolve, reject } of [...asked, ...waiting]) {
      const changes = note.kind === NoteKind.fetchAdd || note.kind === NoteKind.compareAndSwap;
      if (note.kind === NoteKind.revoked) resolve(0n);
      else reject(changes && asked.some((each) => each.note === note) ? error.withUnknownOutcome() : error);
    }
  }

  /** The engine holds nothing of the connection any more. */
  end(error: VerbmqError): void {
    this.fail(error);
    this.#operations.end(error);
    this.#exposed.end();
  }

  async #transfer(
    kind: Operation['kind'],
    remote: DescriptorFields,
    offset: number,
    view: Uint8Array,
  ): Promise<void> {
    const key = this.#keyOf(remote);
    // Nothing is nothing, and a device would refuse it.
    if (view.byteLength === 0) return;
    await this.#operations.run({ ...this.#place(remote, key, offset), kind, view });
  }

  async #transferAll(
    kind: Operation['kind'],
    remote: DescriptorFields,
    pieces: readonly TransferPiece[],
  ): Promise<void> {
    const key = this.#keyOf(remote);
    const running = pieces
      .filter(({ view }) => view.byteLength > 0)
      .map(({ offset, view }) => this.#operations.run({ ...this.#place(remote, key, offset), kind, view }));
    await allEnded(running, kind === SubmissionKind.write);
  }

  #place(
    remote: DescriptorFields,
    { rkey }: MemoryKey,
    offset: number,
  ): { rkey: number; remoteAddress: bigint } {
    return { rkey, remoteAddress: remote.address + BigInt(offset) };
  }

  /** @throws VerbmqError `ERR_VERBMQ_REMOTE_ACCESS`, having ended the connection */
  #keyOf(remote: DescriptorFields): MemoryKey {
    let key = this.#keys.get(remote);
    if (key === undefined) {
      key = verifyKey(this.#peerSecret, remote);
      if (key === undefined)
        throw this.#refuse('its descriptor is not one of this connection, or was changed');
      this.#keys.set(remote, key);
    }
    if (key.number <= (this.#revoked.get(placeOfExposure(key.number)) ?? -1))
      throw this.#refuse('it was revoked');
    return key;
  }

  #refuse(why: string): VerbmqError {
    const error = new VerbmqError(
      'ERR_VERBMQ_REMOTE_ACCESS',
      `an access to exposed memory was refused: ${why}`,
    );
    // As if the device had found out: what is called in the same breath is still accepted, and fails with the connection.
    process.nextTick(this.#failed, error);
    return error;
  }

  #answer(note: MemoryNote): bigint {
    switch (note.kind) {
      case NoteKind.proofAddress:
        return this.#exposed.proof(note.first)?.address ?? 0n;
      case NoteKind.proofKey:
        return BigInt(this.#exposed.proof()?.rkey ?? 0);
      case NoteKind.revoked: {
        const place = placeOfExposure(note.number);
        this.#revoked.set(place, Math.max(note.number, this.#revoked.get(place) ?? 0));
        return 0n;
      }
      default:
        return this.#exposed.atomic(note);
    }
  }

  async #tellRevoked(number: number): Promise<void> {
    await this.#notes.ask(noteOf(NoteKind.revoked, { number }));
  }
}
