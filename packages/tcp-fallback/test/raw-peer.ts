import { once } from 'node:events';
import net, { type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Address, type Connection, isVerbmqError, type Listener, type VerbmqError } from '@verbmq/core';
import { type TcpListenOptions, TcpTransport } from '@verbmq/tcp-fallback';
import { onTestFinished } from 'vitest';
import { FrameType, smallFrame } from '../src/frame.js';
import { decodeOpening, encodeHello, type Hello } from '../src/hello.js';

export const HELLO: Hello = {
  maxMessageBytes: 64 * 1024 * 1024,
  receiveWindowBytes: 4 * 1024 * 1024,
  oneSidedWindowBytes: 1024 * 1024,
};

export interface Frame {
  readonly type: number;
  readonly payload: Buffer;
}

/** A peer that writes whatever a test wants onto a bare socket, and keeps what comes back. */
export class RawPeer {
  readonly socket: Socket;
  /** Resolves when the socket is gone. */
  readonly gone: Promise<void>;
  #received = Buffer.alloc(0);
  #wake: () => void = () => {};
  #gone = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('error', () => {}); // being reset is what many of these peers are in for
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    this.gone = new Promise((resolve) => {
      socket.on('close', () => {
        this.#gone = true;
        this.#wake();
        resolve();
      });
    });
    onTestFinished(() => {
      socket.destroy();
    });
  }

  static async connect(listener: Listener): Promise<RawPeer> {
    const { address } = listener;
    const socket = 'path' in address ? net.connect(address.path) : net.connect(address.port, '127.0.0.1');
    await once(socket, 'connect');
    return new RawPeer(socket);
  }

  write(...parts: readonly Uint8Array[]): void {
    this.socket.write(Buffer.concat(parts));
  }

  /** Resolves when the kernel has taken everything, or the socket is gone. */
  async drained(): Promise<void> {
    if (this.socket.writableLength === 0) return;
    await Promise.race([new Promise<void>((resolve) => this.socket.write('', () => resolve())), this.gone]);
  }

  /** Waits for the other side's opening. @throws the error that a refusal stands for. */
  async opening(): Promise<Hello> {
    for (;;) {
      const opening = decodeOpening(this.#received);
      if (opening !== undefined) {
        this.#received = this.#received.subarray(opening.byteLength);
        return opening.hello;
      }
      await this.#more('the opening');
    }
  }

  /** The next frame. */
  async frame(): Promise<Frame> {
    for (;;) {
      const received = this.#received;
      if (received.byteLength >= 8) {
        const end = 8 + received.readUInt32LE(0);
        if (received.byteLength >= end) {
          this.#received = received.subarray(end);
          return { type: received.readUInt8(4), payload: received.subarray(8, end) };
        }
      }
      await this.#more('a frame');
    }
  }

  /** The next frame of this type; others are skipped. */
  async frameOf(type: number): Promise<Frame> {
    for (;;) {
      const frame = await this.frame();
      if (frame.type === type) return frame;
    }
  }

  /** What the ABORT frame says. */
  async aborted(): Promise<{ code: number; reason: string }> {
    const { payload } = await this.frameOf(FrameType.ABORT);
    return { code: payload.readUInt16LE(0), reason: payload.toString('utf8', 2) };
  }

  async #more(what: string): Promise<void> {
    if (this.#gone) throw new Error(`the socket was gone before ${what} came`);
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }
}

export interface Hosted {
  readonly listener: Listener;
  readonly transport: TcpTransport;
}

const LOOPBACK: Address = { host: '127.0.0.1', port: 0 };

/** A listener, on the loopback interface unless told otherwise, for the time of the test. */
export async function host(options: TcpListenOptions = {}, address = LOOPBACK): Promise<Hosted> {
  const transport = new TcpTransport();
  onTestFinished(() => transport.close());
  return { transport, listener: await transport.listen(address, options) };
}

export interface RawPair extends Hosted {
  readonly peer: RawPeer;
  readonly connection: Connection;
}

/** A connection whose other end is a bare socket, both hellos exchanged. */
export async function rawPair(
  options: TcpListenOptions = {},
  hello: Partial<Hello> = {},
  address = LOOPBACK,
): Promise<RawPair> {
  const hosted = await host(options, address);
  const peer = await RawPeer.connect(hosted.listener);
  const accepted = new Promise<Connection>((resolve) => hosted.listener.onConnection(resolve));
  peer.write(encodeHello({ ...HELLO, ...hello }));
  const connection = await accepted;
  onTestFinished(() => connection.abort('the test is over'));
  await peer.opening();
  return { ...hosted, peer, connection };
}

/** The error with which a connection ended. */
export async function endOf(connection: Connection): Promise<VerbmqError> {
  const { error } = await connection.closed;
  if (!isVerbmqError(error)) throw new Error('the connection ended in order');
  return error;
}

export function data(payload: Uint8Array): Buffer {
  return smallFrame(FrameType.DATA, payload);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** Runs the garbage collector now, so that memory that nobody holds is not counted. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
}

/** Memory of all buffers of this process, in bytes. */
export function bufferBytes(): number {
  return process.memoryUsage().arrayBuffers;
}
