/** A running echo server: it answers each message with the same bytes. */
export interface EchoServer {
  /** What `connect` of the same contestant takes. */
  readonly address: string;
}

/** One connection to an {@link EchoServer}. */
export interface EchoClient {
  /** Sends one message. `data` stays unchanged until its answer has come. */
  send(data: Uint8Array): void;
  close(): Promise<void>;
}

/** What a client calls. An answer's bytes are valid during the call only. */
export interface EchoHandlers {
  readonly onAnswer: (data: Uint8Array) => void;
  readonly onError: (error: Error) => void;
}

/** An implementation of message echo that is measured. Server and client run in processes of their own. */
export interface EchoContestant {
  listen(): Promise<EchoServer>;
  connect(address: string, handlers: EchoHandlers): Promise<EchoClient>;
  /** Ends what `listen` started. */
  close(): Promise<void>;
}
