/**
 * A key-value table in plain memory, made so that others can read it while its owner writes: a key lies in one of a few slots next
 * to each other, which one read fetches, and each slot has a checksum, which tells a slot that was caught half written.
 *
 *   slot: checksum u32, bytes of the key u8, bytes of the value u8, the key, the value
 */
import type { RemoteMemory } from 'verbmq';

const SLOT_BYTES = 64;
const FIXED_BYTES = 6;
const SLOTS = 1024;
/** A key is in the slot that it hashes to, or one of the next. */
const NEIGHBOURS = 4;

/** The owner's side. */
export class Table {
  readonly memory = new Uint8Array((SLOTS + NEIGHBOURS - 1) * SLOT_BYTES);

  set(key: string, value: string): void {
    const [keyBytes, valueBytes] = [Buffer.from(key), Buffer.from(value)];
    if (FIXED_BYTES + keyBytes.length + valueBytes.length > SLOT_BYTES) throw new RangeError('too long');
    const slots = slotsIn(this.memory.subarray(offsetOf(key), offsetOf(key) + NEIGHBOURS * SLOT_BYTES));
    const slot = slots.find((each) => keyIn(each) === key) ?? slots.find((each) => each[4] === 0);
    if (slot === undefined) throw new Error('the table is full here');
    slot.set([keyBytes.length, valueBytes.length], 4);
    slot.set(keyBytes, FIXED_BYTES);
    slot.set(valueBytes, FIXED_BYTES + keyBytes.length);
    slot.writeUInt32LE(checksum(slot), 0);
  }
}

/** Everybody else's side: the owner has no part in it. */
export class TableReader {
  readonly #memory: RemoteMemory;

  constructor(memory: RemoteMemory) {
    this.#memory = memory;
  }

  async get(key: string): Promise<string | undefined> {
    for (;;) {
      const slots = slotsIn(await this.#memory.read(offsetOf(key), NEIGHBOURS * SLOT_BYTES));
      if (slots.every(isWhole)) return valueIn(slots, key);
      // The owner is writing one of them.
    }
  }

  /** As `get` does each, on one way there and back. */
  async getAll(keys: string[]): Promise<(string | undefined)[]> {
    const pieces = keys.map((key) => ({ offset: offsetOf(key), target: NEIGHBOURS * SLOT_BYTES }));
    const read = (await this.#memory.readv(pieces)).map(slotsIn);
    return Promise.all(
      keys.map((key, n) => (read[n]!.every(isWhole) ? valueIn(read[n]!, key) : this.get(key))),
    );
  }
}

function slotsIn(bytes: Uint8Array): Buffer[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: NEIGHBOURS }, (_, n) => all.subarray(n * SLOT_BYTES, (n + 1) * SLOT_BYTES));
}

function valueIn(slots: Buffer[], key: string): string | undefined {
  const slot = slots.find((each) => keyIn(each) === key);
  return slot?.toString('utf8', FIXED_BYTES + slot[4]!, FIXED_BYTES + slot[4]! + slot[5]!);
}

function keyIn(slot: Buffer): string {
  return slot.toString('utf8', FIXED_BYTES, FIXED_BYTES + slot[4]!);
}

function isWhole(slot: Buffer): boolean {
  return slot[4] === 0 || slot.readUInt32LE(0) === checksum(slot);
}

function checksum(slot: Uint8Array): number {
  return hash(slot.subarray(4, FIXED_BYTES + slot[4]! + slot[5]!));
}

function offsetOf(key: string): number {
  return (hash(Buffer.from(key)) % SLOTS) * SLOT_BYTES;
}

/** FNV-1a, 32 bits. */
function hash(bytes: Uint8Array): number {
  let value = 0x811c9dc5;
  for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193);
  return value >>> 0;
}
