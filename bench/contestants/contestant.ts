/** A running echo server: it answers each message with the same bytes. */
export interface EchoServer {
  /** What `connect` of the same contestant takes. */
  readonly address: string;
}

/** Messages up to so many bytes are taken by `send` before it returns: for them, a copy is cheaper than anything else. */
export const TAKEN_BYTES = 16 * 1024;

/** One connection to an {@link EchoServer} that carries messages: the answers come in the order of what was sent. */
export interface EchoClient {
  /** Sends one message. One that is longer than {@link TAKEN_BYTES} stays unchanged until its answer has come. */
  send(data: Uint8Array): void;
  close(): Promise<void>;
}

/** One connection to an {@link EchoServer} that carries calls: each answer is that of its call, in whatever order they come. */
export interface CallClient {
  /** @param data stays unchanged until the answer has come. @returns the answer, in memory of its own */
  call(data: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** One connection that carries messages to the server, which counts those that are right, and does not answer them. */
export interface PushClient {
  /** Sends message `number`, marked in each part (run/marking.ts). @returns what to wait for before the next one, if anything */
  push(number: number, bytes: number): Promise<void> | undefined;
  /** Resolves when everything has arrived, with the number of messages since the last time. Numbers then begin with 0 again. */
  confirm(): Promise<number>;
  close(): Promise<void>;
}

/** One connection by which the server's memory is read: blocks that are marked in each part (run/marking.ts). */
export interface ReadClient {
  /** Reads some block and fills `target` with it. @returns the number that it must be marked with */
  read(target: Uint8Array): Promise<number>;
  close(): Promise<void>;
}

export type Client = EchoClient | CallClient | PushClient | ReadClient;

/** What a client calls. An answer's bytes are valid during the call only. */
export interface EchoHandlers {
  readonly onAnswer: (data: Uint8Array) => void;
  readonly onError: (error: Error) => void;
}

/** An implementation of echo, or of another load, that is measured. Server and client run in processes of their own. */
export interface EchoContestant {
  listen(): Promise<EchoServer>;
  /** May be called several times. @param handlers is used by an {@link EchoClient} alone */
  connect(address: string, handlers: EchoHandlers): Promise<Client>;
  /** Ends what `listen` started. */
  close(): Promise<void>;
  /** CPU time that other processes have used which `listen` started, in microseconds: a broker is part of what a call costs. */
  helperCpuMicros?(): number;
}
