import type { Socket } from 'node:net';
import { VerbmqError } from '@verbmq/core';
import { farewell } from './farewell.js';
import { decodeOpening, encodeHello, encodeRefusal, type Hello, RefusalCode } from './hello.js';
import { tlsError } from './tls.js';

/** How a handshake ended: with the peer's hello and what came behind it, or with an error. */
export interface HandshakeResult {
  readonly peer: Hello;
  readonly rest: Buffer;
}

export interface HandshakeOptions {
  readonly direction: 'in' | 'out';
  readonly own: Hello;
  readonly timeoutMs: number;
}

/** A handshake in progress. */
export interface Handshake {
  /** Gives it up: the peer is told why as far as possible, the socket is ended, and `done` is not called. */
  cancel(code: number, reason: string): void;
}

/**
 * Exchanges hellos on a fresh socket. The connecting side speaks first; the accepting side answers with its hello, or
 * refuses in words. `done` is called once, from within the socket's event, so that nothing that follows is missed.
 * When it brings an error the socket is ended already.
 */
export function shakeHands(
  socket: Socket,
  { direction, own, timeoutMs }: HandshakeOptions,
  done: (error: VerbmqError | undefined, result: HandshakeResult | undefined) => void,
): Handshake {
  let received: Buffer = Buffer.alloc(0);

  const detach = (): void => {
    clearTimeout(timer);
    socket.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
  };
  const leave = (code: number, reason: string): void => {
    detach();
    socket.on('error', () => {}); // whatever befalls it now, it has ended
    // Only a listener refuses: what reached the other side was its answer.
    if (direction === 'in') farewell(socket, encodeRefusal(code, reason));
    else socket.destroy();
  };
  const fail = (error: VerbmqError): void => {
    leave(refusalCodeOf(error), error.message);
    done(error, undefined);
  };

  const onData = (chunk: Buffer): void => {
    received = Buffer.concat([received, chunk]); // a copy: the memory of a chunk may be used again
    let result: HandshakeResult | undefined;
    try {
      const opening = decodeOpening(received);
      if (opening === undefined) return;
      result = { peer: opening.hello, rest: received.subarray(opening.byteLength) };
    } catch (error) {
      if (!(error instanceof VerbmqError)) throw error;
      fail(error);
      return;
    }
    detach();
    if (direction === 'in') socket.write(encodeHello(own));
    done(undefined, result);
  };
  const onEnd = (): void => fail(ended(direction));
  const onError = (error: Error): void => fail(broken(direction, error));
  const onClose = (): void => fail(ended(direction));
  const timer = setTimeout(() => {
    fail(
      new VerbmqError(
        'ERR_VERBMQ_HANDSHAKE_TIMEOUT',
        `the peer did not complete its hello within ${timeoutMs} ms (handshakeTimeoutMs)`,
      ),
    );
  }, timeoutMs);

  socket.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
  if (direction === 'out') socket.write(encodeHello(own));
  return { cancel: leave };
}

function refusalCodeOf(error: VerbmqError): number {
  if (error.code === 'ERR_VERBMQ_VERSION') return RefusalCode.VERSION;
  return error.code === 'ERR_VERBMQ_HANDSHAKE_TIMEOUT' ? RefusalCode.HANDSHAKE_TIMEOUT : RefusalCode.PROTOCOL;
}

function ended(direction: 'in' | 'out'): VerbmqError {
  if (direction === 'in') {
    return new VerbmqError(
      'ERR_VERBMQ_CONNECTION_LOST',
      'the peer ended the connection before its hello was complete',
    );
  }
  return new VerbmqError(
    'ERR_VERBMQ_CONNECT_FAILED',
    'the server ended the connection without an answer: check that a verbmq listener is there, and whether it expects TLS',
  );
}

function broken(direction: 'in' | 'out', cause: Error): VerbmqError {
  const code = 'code' in cause ? String(cause.code) : '';
  if (/^ERR_(SSL|TLS)|^EPROTO$/.test(code)) return tlsError('the peer', cause, code);
  return new VerbmqError(
    direction === 'in' ? 'ERR_VERBMQ_CONNECTION_LOST' : 'ERR_VERBMQ_CONNECT_FAILED',
    `the connection broke during the handshake: ${cause.message}`,
    { cause },
  );
}
