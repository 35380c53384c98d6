// Longer than 300 lines: it is the one list of what the addon offers, and half of it says who owns what.
/**
 * Every symbol of the native addon, with who owns what. The addon is C++ in `../cpp`; `load-addon.ts` finds it.
 *
 * All of it runs on the thread of the event loop that loaded the addon, and never blocks. Functions that fail throw
 * an `Error` with {@link NativeFailure}'s `reason`; `native-error.ts` makes a VerbmqError of it.
 *
 * Longer than 300 lines, so that who reads it has all of the boundary.
 */

/** Why something in the addon failed, in a stable word. A `call` and `errno` are there when a library call failed. */
export interface NativeFailure {
  readonly reason: string;
  readonly message: string;
  readonly call?: string;
  readonly errno?: number;
}

/** Names a connection or listener of one engine: a positive integer whose low 16 bits are an index. */
export type Handle = number;

/** The low bits of a {@link Handle} are an index that is used again; the rest tells generations apart. */
export const HANDLE_INDEX_MASK = 0xffff;

/** Records in the shared arrays are four 32-bit integers: kind, handle, a, b. */
export const RECORD_WORDS = 4;
/** Records in a row that a one-sided operation or a large message takes; see {@link OperationWord}. */
export const OPERATION_RECORDS = 4;

/** What the engine reports; `cpp/engine/events.h` holds the same numbers. */
export const EventKind = {
  /** a: receive slot, b: payload bytes. The slot belongs to JavaScript until it is released. */
  message: 1,
  /** A gate that had been found shut may be open again. */
  writable: 2,
  /** `connect` has succeeded. */
  connected: 3,
  /** Of a listener. a: handle of the request; answer with `accept` or `reject` at once. */
  incoming: 4,
  /** An accepted request has become a connection. */
  accepted: 5,
  /** Every message of the peer has been reported; no further one will come. */
  peerClosing: 6,
  /** The peer has answered a ping. */
  pong: 7,
  /** Nothing is left of the handle. a: 1 when `takeFailure` says why, 0 after an orderly end or a local `destroy`. */
  closed: 8,
  /** Of a listener: a request that nobody could understand, or for which no handle was left, was refused. a: the reason sent. */
  refused: 9,
  /** a: token of a one-sided operation that is complete. Those that fail end the connection, and are not reported. */
  operationDone: 10,
  /** Of no handle: `takeDeviceNotices` has something. */
  deviceNotice: 11,
  /** a: receive slot that tells of a large message, b: its bytes. Answer with `fetch`, in the order of these events. */
  advertised: 12,
  /** a: that slot, b: bytes. The message is where it was fetched to; releasing the slot opens the window again. */
  fetched: 13,
  /** The peer has said something about exposed memory: `takeNote`, then `sendAnswer`. */
  note: 14,
  /** The peer has answered a note: `takeAnswer`. */
  answer: 15,
  /** A connection that was up has failed, and `takeFailure` says why. `closed` follows when nothing is left of it, which may take seconds. */
  lost: 16,
} as const;

/** What JavaScript submits; `cpp/engine/events.h` holds the same numbers. */
export const SubmissionKind = {
  /** a: send slot, b: payload bytes, which stand behind the slot's header. The slot is the device's until completed. */
  send: 1,
  /** a: receive slot, b: the number of the pool that it is of, or 0. A slot of a pool may be released after its connection has ended: then without its handle (0), which may be another one's. */
  release: 2,
  ping: 3,
  /** `Gate.completed` will soon tell of everything submitted so far, though most sends are not signalled. */
  fence: 4,
  /** One-sided operations on the peer's memory: each takes {@link OPERATION_RECORDS} records. */
  read: 5,
  write: 6,
  fetchAdd: 7,
  compareAndSwap: 8,
  /** token: receive slot that tells of a large message; it is read into the region. Needs neither bytes nor key. */
  fetch: 9,
  /** token: send slot, whose content is overwritten; tells the peer of a message that lies in the region. Takes a turn as `send` does. */
  advertise: 10,
} as const;

/** Where the 32-bit words of a one-sided operation lie in its records, behind kind and handle. */
export const OperationWord = {
  /** Comes back with `operationDone`. */
  token: 2,
  /** Registered memory of this side: what is written from, or what is read into. */
  region: 3,
  /** Bytes from its start. */
  offset: 4,
  /** At least 1. Of an atomic operation 8: the value before lands in the region, at an offset that is a multiple of 8. */
  bytes: 5,
  rkey: 6,
} as const;

/** Where the 64-bit words of a one-sided operation lie, in pairs of 32-bit words. */
export const OperationLongWord = {
  remoteAddress: 4,
  /** What is added, or what is expected. */
  operand: 5,
  /** What is stored where that was found. */
  swap: 6,
} as const;

/** What registered memory is for; bits to be added. None is needed to send from it, or to write from it. */
export const MemoryUse = {
  remoteRead: 1,
  remoteWrite: 2,
  remoteAtomic: 4,
  /** What this side reads, and the results of its atomic operations, land in it. */
  sink: 8,
} as const;

/** Registered memory of one connection. */
export interface MemoryRegistration {
  /** Names it in submissions. */
  readonly region: number;
  /** Where it starts, and the key to it, in the peer's operations. No other connection's peer can use the key. */
  readonly address: bigint;
  readonly rkey: number;
}

/** Words of a connection's gate, written by the engine and read here without a call. Counters wrap at 2^32. */
export const Gate = {
  /** Messages whose send has completed, in the order of submission: their slots are free. */
  completed: 0,
  /** How many messages the peer's credits allow in total. */
  limit: 1,
  /** Set to 1 here to be told (`writable`) when one of the others has moved. */
  wantWritable: 2,
  /** Large messages that the peer has read, in the order of submission: their memory is free. */
  largeRead: 3,
  /** Large messages that the peer's application has let go of, likewise: they no longer count against its window. */
  largeReleased: 4,
} as const;

/** Words about the submissions. */
export const Ring = {
  /** How many records are in the array. Counted up here, set to 0 by the engine when it has taken them. */
  count: 0,
  /**
   * How many records of events there are while the engine delivers them, else 0. It takes the submissions when `dispatch` has
   * returned, and again when all microtasks after it are done.
   */
  delivering: 1,
} as const;
export const RING_WORDS = 2;

/** Why an incoming request is refused. */
export const RejectReason = { version: 2, refused: 3, noResources: 4 } as const;

/** The memory of one connection, allocated here. The engine registers it and references it until it has deregistered. */
export interface ConnectionMemory {
  /** Receive slots (data, then control), send slots, and a page for control frames, from `slabOffset` on. */
  readonly slab: ArrayBuffer;
  /** The first page boundary in the slab. */
  readonly slabOffset: number;
  /** `layout.gateWords` words; see {@link Gate}. */
  readonly gate: Int32Array;
  /** Bytes of a slot, header included; a multiple of 64. */
  readonly slotBytes: number;
  readonly dataSlots: number;
  readonly sendSlots: number;
  /** The receive slots are those of a pool, and the slab has none: see `joinReceivePool`. */
  readonly sharesReceives: boolean;
  /** Announced to the peer. */
  readonly maxMessageBytes: number;
  /** Announced to the peer: bytes of large messages that it may advertise and that are not released. */
  readonly windowBytes: number;
}

/** Receive slots that connections share, allocated here. The engine references the slab until the last of them has ended. */
export interface ReceivePoolMemory {
  readonly slab: ArrayBuffer;
  /** The first page boundary in the slab. */
  readonly slabOffset: number;
  /** Bytes of a slot, header included. */
  readonly slotBytes: number;
  readonly slots: number;
  /** For each, `layout.sharedSlotsPerConnection` slots are set aside. */
  readonly maxConnections: number;
}

/** Receive slots that are shared, of all devices. */
export interface SharedReceiveTotals {
  readonly slots: number;
  /** Those that wait for a message. The others hold one, or wait to be posted again. */
  readonly postedSlots: number;
  /** Those that busy connections have beyond what each is sure of. */
  readonly lentSlots: number;
  readonly connections: number;
  /** How often a device has warned that few receives are left. */
  readonly lowWarnings: number;
}

export interface EngineOptions {
  /** Records of events, filled before each `dispatch`. The engine references these three arrays for its life. */
  readonly events: Int32Array;
  /** Records of submissions, taken after each `dispatch` and by `flush`. */
  readonly submissions: Int32Array;
  /** {@link Ring}. */
  readonly ring: Int32Array;
  /** 0: sleep after every completion; 1: adaptive; 2: always poll. */
  readonly polling: 0 | 1 | 2;
  /** How long adaptive polling goes on after the last completion, in microseconds. */
  readonly spinMicros: number;
  /** Other files in place of the libraries, for tests. */
  readonly ibverbs?: string;
  readonly rdmacm?: string;
}

export interface ConnectRequest extends ConnectionMemory {
  /** An IP address; names are resolved before. */
  readonly host: string;
  readonly port: number;
  /** The local address to connect from. */
  readonly localHost?: string;
  /** For each of address and route resolution, in milliseconds. */
  readonly timeoutMs: number;
}

/** What a device has reported by itself, or what became of it. */
export interface DeviceNotice {
  readonly device: string;
  /** `removed`, `device-fatal`, `port-error`, `port-active`, and others; the words of `device_event_name` in C++. */
  readonly event: string;
  /** 0 when it is not about a port. */
  readonly port: number;
}

export interface ConnectionDescription {
  readonly device: string;
  readonly iwarp: boolean;
  /** The devices of both sides have atomic operations. */
  readonly atomics: boolean;
  /** Registered pages are missing in children after a fork: only whole pages that hold nothing else may be registered. */
  readonly forkHidesPages: boolean;
  readonly inlineBytes: number;
  readonly peerSlotBytes: number;
  readonly peerMaxMessageBytes: number;
  /** 0 when large messages cannot be sent: a device of one side does not read. */
  readonly peerWindowBytes: number;
  /** Reads and atomics that may be in flight from this side; 0 when a device has none. */
  readonly readDepth: number;
  /** With what each side signs its memory descriptors on this connection. */
  readonly secret: Uint8Array;
  readonly peerSecret: Uint8Array;
  readonly local: { readonly host: string; readonly port: number };
  readonly remote: { readonly host: string; readonly port: number };
}

/** All RDMA of one transport. Holds the process while a listener or connection is open, and not otherwise. */
export interface NativeEngine {
  listen(options: { host: string; port: number; backlog: number }): Handle;
  listenerAddress(listener: Handle): { host: string; port: number };
  /** Requests that wait are refused by the kernel. Reports nothing. */
  closeListener(listener: Handle): void;
  /** Answers with `connected`, or with `closed` and a failure. */
  connect(request: ConnectRequest): Handle;
  /** Answers with `accepted`, or with `closed` and a failure. Throws, having refused, when there are no resources. */
  accept(request: Handle, memory: ConnectionMemory): void;
  reject(request: Handle, reason: number): void;
  /**
   * Lets a request share the receive slots of other connections over the same device, before it is accepted. Answers with the
   * number of the pool, or 0 when there is none on this device: then `makeReceivePool`.
   */
  joinReceivePool(request: Handle): number;
  /** Likewise, with a new pool. Throws `srq-unsupported`, `no-resources` or `memlock`. */
  makeReceivePool(request: Handle, memory: ReceivePoolMemory): number;
  sharedReceiveTotals(): SharedReceiveTotals;
  /** Sends the close frame behind everything submitted. */
  sendClose(connection: Handle): void;
  /** Both sides have closed: ends the connection when the peer has our close. Answers with `closed`. */
  finish(connection: Handle): void;
  /**
   * Tells the peer the reason (at most 1,024 bytes of it), and ends the connection when that is delivered, or after
   * `timeoutMs`. `refusal`: the reason is an access to exposed memory that was not allowed.
   */
  abort(connection: Handle, reason: string, timeoutMs: number, refusal?: boolean): void;
  /**
   * Says up to `layout.noteBytes` bytes to the peer, which answers before the next note. `false`: it has still to answer the
   * last one, or the connection has ended. The bytes are copied.
   */
  sendNote(connection: Handle, bytes: Uint8Array): boolean;
  /** `false`: there is no note to answer. */
  sendAnswer(connection: Handle, bytes: Uint8Array): boolean;
  /** Nothing when the connection has ended since it arrived; so does `takeAnswer`. */
  takeNote(connection: Handle): Uint8Array | undefined;
  takeAnswer(connection: Handle): Uint8Array | undefined;
  /** Ends the connection, or the attempt, now. Answers with `closed`. */
  destroy(connection: Handle): void;
  /** Of a connection that was reported as `connected` or `accepted`, also when it has ended since. Answered once. */
  takeDescription(connection: Handle): ConnectionDescription;
  /** Each failure is answered once. */
  takeFailure(handle: Handle): NativeFailure | undefined;
  /** What devices that are in use have reported since the last call; each is answered once. */
  takeDeviceNotices(): DeviceNotice[];
  /**
   * Registers `bytes` bytes of `buffer` from `offset` on for `uses` ({@link MemoryUse}) on the device of this connection.
   * References the buffer until it is deregistered, or the connection has ended. Throws `memlock` or `no-resources`.
   */
  registerMemory(
    connection: Handle,
    buffer: ArrayBuffer,
    offset: number,
    bytes: number,
    uses: number,
  ): MemoryRegistration;
  /**
   * The peer's access has ended when this returns. Where operations of this side use the memory it stays registered until
   * they are complete.
   */
  deregisterMemory(connection: Handle, region: number): void;
  /** What is registered at this moment by all connections, their slabs included; those also that have ended, until their device lets go. */
  memoryTotals(): { readonly bytes: number; readonly regions: number };
  /** Connections that have ended, and attempts to connect, for which calls of drivers last on other threads. */
  pendingCalls(): number;
  /** Takes the submissions and posts them. */
  flush(): void;
  /** Ends everything at once, without a farewell. No event follows. */
  close(): void;
}

export interface NativePort {
  readonly number: number;
  readonly state: string;
  readonly linkLayer: string;
  readonly activeMtuBytes: number;
}

export interface NativeDevice {
  readonly name: string;
  readonly transport: string;
  readonly firmware: string;
  readonly ports: readonly NativePort[];
  readonly maxQueuePairs: number;
  readonly maxWorkRequests: number;
  readonly maxPieces: number;
  readonly maxCompletionEntries: number;
  readonly maxMemoryRegions: number;
  readonly maxSharedReceiveQueues: number;
  /** In one such queue. */
  readonly maxSharedReceives: number;
  readonly maxReadsAsResponder: number;
  readonly maxReadsAsInitiator: number;
  readonly atomics: string;
  readonly problem?: NativeFailure;
}

export interface Addon {
  /** `dispatch` is called when there are records in `options.events`, as many as `Ring.delivering` says; it must not throw. */
  readonly Engine: new (
    options: EngineOptions,
    dispatch: () => void,
  ) => NativeEngine;
  /**
   * Tries every device for real, with `memoryBytes` of registered memory, and gives everything back: on a thread, since drivers take as
   * long as they want. Then calls `answered`, which must not throw, with the devices, or with an error when there is nothing to try.
   * The event loop is not kept alive for that, and an environment that ends does not wait.
   */
  readonly probe: (
    options: { memoryBytes: number; ibverbs?: string; rdmacm?: string },
    answered: (
      ...found: [error: undefined, devices: NativeDevice[]] | [error: Error, devices: undefined]
    ) => void,
  ) => void;
  /** Bytes from the start of `buffer` to the first page boundary in it. */
  readonly offsetOfPage: (buffer: ArrayBuffer) => number;
  /** Before `buffer` is written to or registered. Only advice: it neither fails nor is it sure to change anything. */
  readonly preferHugePages: (buffer: ArrayBuffer) => void;
  readonly layout: {
    readonly pageBytes: number;
    readonly headerBytes: number;
    readonly controlReceiveSlots: number;
    /** Slots of a pool that are set aside for each connection, and how many of these are for messages. */
    readonly sharedSlotsPerConnection: number;
    readonly sharedDataSlots: number;
    readonly controlAreaBytes: number;
    readonly gateWords: number;
    readonly noteBytes: number;
  };
}
