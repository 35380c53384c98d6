import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import type { Message } from '../contract/message.js';
import { prove, sameSecret } from './authentication.js';
import { Fields } from './fields.js';
import { FrameKind, HEADER_BYTES, jsonFrame, protocolError } from './frames.js';
import { errorOfRefusal, type Hello, helloFrame, parseWelcome, type Welcome } from './hello.js';

/**
 * Says hello on a new base connection and answers with the server's welcome. When it rejects, the connection is ended.
 * When it resolves, what comes behind the welcome waits in the connection for its next receiver.
 */
export function shakeHands(
  base: Connection,
  hello: Hello,
  key: Uint8Array | undefined,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Welcome> {
  return new Promise((resolve, reject) => {
    const client = new ClientHandshake(base, hello, key);
    const finish = (error: unknown, welcome?: Welcome): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      detach();
      if (welcome !== undefined) {
        base.greeted(); // here, since messages of any length may be right behind the welcome
        resolve(welcome);
        return;
      }
      base.abort(error instanceof VerbmqError ? error.message : undefined);
      reject(error);
    };
    const onAbort = (): void => finish(signal.reason);
    const timer = setTimeout(() => {
      finish(
        new VerbmqError(
          'ERR_VERBMQ_HANDSHAKE_TIMEOUT',
          `the peer did not answer the hello within ${timeoutMs} ms: it hangs, or it is not a verbmq:// listener`,
        ),
      );
    }, timeoutMs);
    const detach = base.onMessage((message) => {
      try {
        const welcome = client.received(message);
        if (welcome !== undefined) finish(undefined, welcome);
      } catch (error) {
        finish(error);
      }
    });
    signal.addEventListener('abort', onAbort);
    void base.closed.then(({ error }) => finish(error ?? goneError()));
    client.begin();
    if (signal.aborted) onAbort();
  });
}

/** The client's part of the handshake: HELLO, perhaps CHALLENGE and AUTHENTICATE, WELCOME, and with a key AUTHENTICATE. */
class ClientHandshake {
  readonly #base: Connection;
  readonly #key: Uint8Array | undefined;
  /** All that was said, in order; both sides have the same. */
  readonly #said: Uint8Array[] = [];
  readonly #hello: Hello;
  #challenged = false;
  #welcome: Welcome | undefined;

  constructor(base: Connection, hello: Hello, key: Uint8Array | undefined) {
    this.#base = base;
    this.#hello = hello;
    this.#key = key;
  }

  begin(): void {
    this.#say(helloFrame(this.#hello));
  }

  received(message: Message): Welcome | undefined {
    const frame = new Uint8Array(message.data);
    if (frame.length < HEADER_BYTES) throw protocolError('a frame is shorter than its header');
    switch (frame[0]) {
      case FrameKind.REFUSE:
        throw errorOfRefusal(frame);
      case FrameKind.CHALLENGE:
        this.#answer(frame);
        return undefined;
      case FrameKind.WELCOME:
        return this.#welcomed(frame);
      case FrameKind.AUTHENTICATE:
        return this.#authenticated(frame);
      default:
        throw protocolError(`a frame of kind ${frame[0]} came in the handshake`);
    }
  }

  #answer(challenge: Uint8Array): void {
    if (this.#challenged || this.#welcome !== undefined) throw protocolError('a second challenge came');
    if (this.#key === undefined) {
      throw authenticationError(
        'the peer asks for a pre-shared key, and this side has none: set preSharedKey',
      );
    }
    Fields.ofFrame(challenge).text('nonce'); // it is proved with the frame that it stands in
    this.#challenged = true;
    this.#said.push(challenge);
    this.#say(jsonFrame(FrameKind.AUTHENTICATE, { proof: prove(this.#key, 'client', this.#said) }));
  }

  #welcomed(frame: Uint8Array): Welcome | undefined {
    if (this.#welcome !== undefined) throw protocolError('a second welcome came');
    if (this.#key !== undefined && !this.#challenged) {
      throw authenticationError(
        'the peer does not ask for the pre-shared key, so it cannot prove to have it',
      );
    }
    this.#said.push(frame);
    this.#welcome = parseWelcome(frame);
    return this.#key === undefined ? this.#welcome : undefined;
  }

  #authenticated(frame: Uint8Array): Welcome {
    const proof = Fields.ofFrame(frame).text('proof');
    if (this.#key === undefined || this.#welcome === undefined)
      throw protocolError('a proof came that was not asked for');
    if (!sameSecret(prove(this.#key, 'server', this.#said), proof))
      throw authenticationError('the peer does not have the pre-shared key');
    return this.#welcome;
  }

  #say(frame: Uint8Array): void {
    this.#said.push(frame);
    this.#base.send(frame).catch(() => {}); // its end is told elsewhere
  }
}

function authenticationError(what: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_REJECTED', what, { reason: 'authentication' });
}

function goneError(): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'the peer closed the connection in the handshake');
}
