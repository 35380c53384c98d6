/** A running echo server: it answers each message with the same bytes. */
export interface EchoServer {
  /** What `connect` of the same contestant takes. */
  readonly address: string;
}

/** One connection to an {@link EchoServer} that carries messages: the answers come in the order of what was sent. */
export interface EchoClient {
  /** Sends one message. `data` stays unchanged until its answer has come. */
  send(data: Uint8Array): void;
  close(): Promise<void>;
}

/** One connection to an {@link EchoServer} that carries calls: each answer is that of its call, in whatever order they come. */
export interface CallClient {
  /** @param data stays unchanged until the answer has come. @returns the answer, in memory of its own */
  call(data: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** What a client calls. An answer's bytes are valid during the call only. */
export interface EchoHandlers {
  readonly onAnswer: (data: Uint8Array) => void;
  readonly onError: (error: Error) => void;
}

/** An implementation of echo that is measured. Server and client run in processes of their own. */
export interface EchoContestant {
  listen(): Promise<EchoServer>;
  /** May be called several times. @param handlers is not used where the connection carries calls */
  connect(address: string, handlers: EchoHandlers): Promise<EchoClient | CallClient>;
  /** Ends what `listen` started. */
  close(): Promise<void>;
  /** CPU time that other processes have used which `listen` started, in microseconds: a broker is part of what a call costs. */
  helperCpuMicros?(): number;
}
