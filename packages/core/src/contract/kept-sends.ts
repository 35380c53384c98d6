/** @internal Messages that stay where they left from, for a layer that may have to send them again: the last ones that it has sent. */
export interface KeptSends {
  readonly count: number;
  /** Number `index` of them, oldest first, with its header. */
  at(index: number): Uint8Array;
}
