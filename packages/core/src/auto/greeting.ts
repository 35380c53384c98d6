import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { prove, sameSecret } from './authentication.js';
import { Fields } from './fields.js';
import { FrameKind, HEADER_BYTES, jsonFrame, protocolError } from './frames.js';
import {
  type Hello,
  parseHello,
  type RefusalReason,
  randomName,
  refusalFrame,
  type Welcome,
  welcomeFrame,
} from './hello.js';

export interface GreetingHooks {
  /** The peer has said hello, and proved that it has the key where there is one. @throws {@link Refusal} */
  greeted(greeting: Greeting, hello: Hello): void;
  /** It has not, in time or in order. The connection is being ended. */
  failed(greeting: Greeting, error: VerbmqError): void;
  /** Nothing is left of the connection of one that has failed. */
  gone(greeting: Greeting): void;
}

/** How long a peer that is refused may take to hear why, in milliseconds. */
const REFUSAL_MS = 1000;

/** A hello that is understood and not granted. */
export class Refusal extends Error {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** The server's part of the handshake on a new base connection, until it is welcomed or refused. */
export class Greeting {
  readonly base: Connection;
  readonly #key: Uint8Array | undefined;
  readonly #hooks: GreetingHooks;
  readonly #timer: NodeJS.Timeout;
  readonly #detach: () => void;
  /** All that was said, in order; both sides have the same. */
  readonly #said: Uint8Array[] = [];
  #hello: Hello | undefined;
  #over = false;
  #welcomed = false;

  constructor(base: Connection, key: Uint8Array | undefined, timeoutMs: number, hooks: GreetingHooks) {
    this.base = base;
    this.#key = key;
    this.#hooks = hooks;
    this.#timer = setTimeout(() => {
      this.#fail(
        new VerbmqError('ERR_VERBMQ_HANDSHAKE_TIMEOUT', `a peer did not say hello within ${timeoutMs} ms`),
      );
    }, timeoutMs);
    this.#timer.unref();
    this.#detach = base.onMessage((message) => {
      if (!this.#over) this.#received(new Uint8Array(message.data));
    });
    void base.closed.then(({ error }) => {
      this.#fail(error ?? new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'a peer went away in the handshake'));
      if (!this.#welcomed) hooks.gone(this);
    });
  }

  /** Welcomes the peer. What comes next waits in the connection for its next receiver. */
  welcome(welcome: Welcome): void {
    this.#welcomed = true;
    this.#end();
    this.#say(welcomeFrame(welcome));
    if (this.#key !== undefined)
      this.#say(jsonFrame(FrameKind.AUTHENTICATE, { proof: prove(this.#key, 'server', this.#said) }));
  }

  /** Ends it in words, and in bounded time: a peer that was refused does not close, or read, unless it wants to. */
  refuse(reason: RefusalReason, message: string): void {
    if (this.#over) return;
    this.#end();
    this.#say(refusalFrame(reason, message));
    const timer = setTimeout(() => this.base.abort(`it was refused (${reason}): ${message}`), REFUSAL_MS);
    timer.unref();
    void this.base.close().then(() => clearTimeout(timer));
    this.#hooks.failed(this, refused(reason, message));
  }

  /** The same without words. */
  cutOff(reason: RefusalReason, message: string): void {
    const error = refused(reason, message);
    this.#fail(error);
  }

  #received(frame: Uint8Array): void {
    try {
      if (frame.byteLength < HEADER_BYTES) throw protocolError('a frame is shorter than its header');
      if (this.#hello === undefined) this.#helloReceived(frame);
      else this.#proofReceived(frame);
    } catch (error) {
      if (error instanceof Refusal) this.refuse(error.reason, error.message);
      else if (error instanceof VerbmqError)
        this.refuse(error.code === 'ERR_VERBMQ_VERSION' ? 'version' : 'protocol', error.message);
      else throw error;
    }
  }

  #helloReceived(frame: Uint8Array): void {
    if (frame[0] !== FrameKind.HELLO) throw protocolError(`a frame of kind ${frame[0]} came before a hello`);
    this.#said.push(frame);
    const hello = parseHello(frame);
    this.#hello = hello;
    if (this.#key === undefined) this.#hooks.greeted(this, hello);
    else this.#say(jsonFrame(FrameKind.CHALLENGE, { nonce: randomName() }));
  }

  #proofReceived(frame: Uint8Array): void {
    const key = this.#key as Uint8Array;
    if (frame[0] !== FrameKind.AUTHENTICATE) throw protocolError('a proof was due');
    if (!sameSecret(prove(key, 'client', this.#said), Fields.ofFrame(frame).text('proof')))
      throw new Refusal('authentication', 'the pre-shared key is another one');
    this.#said.push(frame);
    this.#hooks.greeted(this, this.#hello as Hello);
  }

  #say(frame: Uint8Array): void {
    this.#said.push(frame);
    this.base.send(frame).catch(() => {}); // its end is told elsewhere
  }

  #fail(error: VerbmqError): void {
    if (this.#over) return;
    this.#end();
    this.base.abort(error.message);
    this.#hooks.failed(this, error);
  }

  #end(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#detach();
  }
}

function refused(reason: RefusalReason, message: string): VerbmqError {
  return new VerbmqError(
    reason === 'version' ? 'ERR_VERBMQ_VERSION' : 'ERR_VERBMQ_REJECTED',
    `a peer was refused (${reason}): ${message}`,
    { reason },
  );
}
