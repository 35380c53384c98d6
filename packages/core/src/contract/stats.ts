/** Counters of a connection since it opened. A snapshot: it does not change after it was taken. */
export interface ConnectionStats {
  /** What the transport has taken. Bytes are those of the messages, without headers. */
  readonly messagesSent: number;
  readonly bytesSent: number;
  /** What has arrived. */
  readonly messagesReceived: number;
  readonly bytesReceived: number;
  /** Sends that wait for room. */
  readonly sendsWaiting: number;
  /** Bytes of the sends that wait for room. */
  readonly bytesWaiting: number;
  /** Bytes that the transport has taken and that have not left yet, as far as it knows: `drain()` waits for them, a look may be early. */
  readonly bytesBuffered: number;
  /** Messages that have arrived and wait for the application. */
  readonly messagesQueued: number;
  /** Sends that found no room and had to wait. */
  readonly backpressureEvents: number;
}

/** Counters of a listener since it opened. A snapshot. */
export interface ListenerStats {
  /** Connections that were handed to the application, or began to wait for it. */
  readonly accepted: number;
  /** Connections that were refused or failed before that, and those that ended while they waited and were not handed over. */
  readonly failed: number;
}

/** Counters of a transport since it was made. A snapshot. */
export interface TransportStats {
  /** Those that are open. */
  readonly listeners: number;
  readonly connections: number;
  /** Sums over all connections, the closed ones included. */
  readonly messagesSent: number;
  readonly bytesSent: number;
  readonly messagesReceived: number;
  readonly bytesReceived: number;
}
