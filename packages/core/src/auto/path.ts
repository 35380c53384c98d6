import type { Connection } from '../contract/connection.js';
import type { DirectReceiver, ReceiveMemory } from '../contract/direct-receiver.js';
import type { CloseInfo } from '../contract/lifecycle.js';
import { Message } from '../contract/message.js';
import { giveFrame, LONG_FRAME_BYTES, lendFrame } from './frame-memory.js';
import type { PathNumber } from './session.js';

export interface PathHooks {
  /** A frame has come, whose memory is used again when this returns. */
  arrived(path: Path, frame: Uint8Array): void;
  /** The same, of `bytes` bytes that lie at `at` in `memory`. */
  arrivedAt(path: Path, memory: ReceiveMemory, at: number, bytes: number, token: number): void;
  /** A frame has come whose memory may be kept; the lease ends when this returns unless it was retained. */
  longArrived(path: Path, lease: Message): void;
  /** It takes frames again, or bytes have left. */
  room(path: Path): void;
  /** The connection below has ended, in whatever way; it may still hold what is the system's. */
  ended(path: Path, info: CloseInfo): void;
}

/** One connection that carries frames of a session. It is closed or aborted by the session, never by itself. */
export class Path implements DirectReceiver {
  readonly number: PathNumber = 0;
  readonly connection: Connection;
  readonly #hooks: PathHooks;
  readonly #detach: () => void;
  /** Bytes that were lent and are not back, and how many sends wait for room below. */
  #lentBytes = 0;
  #waiting = 0;
  #draining = false;
  #left = false;

  constructor(number: PathNumber, connection: Connection, hooks: PathHooks) {
    this.number = number;
    this.connection = connection;
    this.#hooks = hooks;
    connection.greeted();
    this.#detach = connection.onMessage((message) => {
      if (!this.#left) this.#arrived(message);
    });
    connection.receiveDirectly(this);
    void connection.ending.then((info) => {
      if (!this.#left) hooks.ended(this, info);
    });
  }

  /** Whether a frame may be written. */
  get writable(): boolean {
    return this.#waiting === 0 && this.#lentBytes < LENT_LIMIT_BYTES && this.connection.state === 'open';
  }

  /** Writes a frame, while `writable`. */
  write(frame: Uint8Array): void {
    if (frame.length > LONG_FRAME_BYTES) this.#lend(frame);
    else if (!this.#takes(frame)) this.#wait(new Uint8Array(frame));
  }

  /** Writes a frame behind all others, whether there is room or not; for the few that are not messages. */
  control(frame: Uint8Array): void {
    if (this.connection.state !== 'open') return;
    if (this.#waiting < MAX_WAITING) this.#wait(frame);
    else this.connection.abort('the peer asks for more than it takes');
  }

  /** Bytes that have not left this process. */
  get bufferedBytes(): number {
    if (this.connection.state === 'closed') return 0;
    const { bytesBuffered, bytesWaiting } = this.connection.stats();
    return bytesBuffered + bytesWaiting;
  }

  /** While there are any, `room` is called when they have. */
  awaitLeaving(): void {
    if (this.#draining || this.bufferedBytes === 0) return;
    this.#draining = true;
    const drained = (): void => {
      this.#draining = false;
      this.#room();
    };
    this.connection.drain().then(drained, drained);
  }

  /** The session is not interested any more: nothing that comes is told to it. The connection is still open. */
  leave(): void {
    this.#left = true;
    this.connection.receiveDirectly(undefined);
    this.#detach();
  }

  /** @internal */
  receivedAt(memory: ReceiveMemory, at: number, bytes: number, token: number): void {
    this.#hooks.arrivedAt(this, memory, at, bytes, token);
  }

  /** @internal */
  received(data: Uint8Array, token: number): void {
    const { length } = data; // before a handler takes the memory away
    if (length > LONG_FRAME_BYTES) {
      const message = new Message(data, this.connection, token);
      if (!this.#left) this.#hooks.longArrived(this, message);
      if (!message.retained) message.release();
    } else {
      if (!this.#left) this.#hooks.arrived(this, data);
      this.connection.releaseMessage(token, length);
    }
  }

  #arrived(message: Message): void {
    const { data } = message;
    if (data.length > LONG_FRAME_BYTES) this.#hooks.longArrived(this, message);
    else this.#hooks.arrived(this, data);
  }

  /** `false`: the frame must wait. */
  #takes(frame: Uint8Array): boolean {
    try {
      return this.connection.trySend(frame);
    } catch (error) {
      this.#failed(error as Error);
      return true;
    }
  }

  #lend(frame: Uint8Array): void {
    const bytes = frame.length;
    this.#lentBytes += bytes;
    lendFrame(frame);
    const sent = this.connection.send(frame);
    const waits = this.connection.stats().sendsWaiting > 0;
    if (waits) this.#waiting++;
    this.#whenTaken(sent, (taken) => {
      if (waits) this.#waiting--;
      this.#lentBytes -= bytes;
      // Of a frame that was not taken a part may have left: the system may still read it, so its memory is never used again.
      if (taken) giveFrame(frame, bytes);
    });
  }

  #wait(frame: Uint8Array): void {
    this.#waiting++;
    this.#whenTaken(this.connection.send(frame), () => {
      this.#waiting--;
    });
  }

  /** Notes what has changed when a send has ended, in whatever way, and that there is room. */
  #whenTaken(sent: Promise<void>, note: (taken: boolean) => void): void {
    const ended = (taken: boolean): void => {
      note(taken);
      this.#room();
    };
    sent.then(
      () => ended(true),
      (error: Error) => {
        this.#failed(error);
        ended(false);
      },
    );
  }

  /**
   * The connection did not take a frame. The session keeps it, and writes it on its next path; on this one, what follows would
   * leave a gap. On a connection that has ended this does nothing.
   */
  #failed(error: Error): void {
    this.connection.abort(`a frame could not be sent: ${error.message}`);
  }

  #room(): void {
    if (!this.#left) this.#hooks.room(this);
  }
}

/** Frames beside the messages that may wait; two sides that keep the protocol have two or three at most. */
const MAX_WAITING = 64;

/** Frames are lent up to so many bytes at a time, and one more. */
const LENT_LIMIT_BYTES = 1024 * 1024;
