/**
 * Views of received payloads in a slab, one for each slot. A slot often gets a message as long as the one before, and its view
 * shows that one as well: making a view takes longer than all the rest of handing a short message over.
 */
export class SlotViews {
  readonly #slab: ArrayBuffer;
  readonly #views: (Uint8Array | undefined)[];
  /** Their offsets. */
  readonly #offsets: number[];

  constructor(slab: ArrayBuffer, slots: number) {
    this.#slab = slab;
    this.#views = new Array(slots).fill(undefined);
    this.#offsets = new Array(slots).fill(0);
  }

  /** `bytes` bytes at `offset` in the slab, which lie in the payload of `slot`. */
  of(slot: number, offset: number, bytes: number): Uint8Array {
    const last = this.#views[slot];
    if (last !== undefined && last.length === bytes && this.#offsets[slot] === offset) return last;
    const view = new Uint8Array(this.#slab, offset, bytes);
    this.#views[slot] = view;
    this.#offsets[slot] = offset;
    return view;
  }
}
