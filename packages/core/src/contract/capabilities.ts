/**
 * How a connection does a thing: by the hardware or the protocol itself (`native`), by code that gives the same
 * effect (`emulated`), or not at all (`none`; the call is refused with `ERR_VERBMQ_UNSUPPORTED`).
 */
export type Support = 'native' | 'emulated' | 'none';

/** What a connection can do, and how. It does not change while the connection lives. */
export interface Capabilities {
  /** `read` and `write` of the peer's exposed memory. */
  readonly oneSided: Support;
  /** `fetchAdd` and `compareAndSwap`. iWARP devices have none of their own (RFC 5040 defines no atomics). */
  readonly atomics: Support;
  /** Messages longer than one frame of the transport. */
  readonly largeMessages: Support;
  /** `allocate` gives memory that leaves without a copy by this side's CPU. */
  readonly zeroCopySend: Support;
}
