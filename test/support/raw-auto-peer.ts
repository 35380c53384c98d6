import { createHmac } from 'node:crypto';
import type { Address, Connection, Listener, Transport } from '@verbmq/core';
import type { AutoConnection } from '@verbmq/core/auto';
import { MemoryTransport } from '@verbmq/core/memory-transport';
import { onTestFinished } from 'vitest';
import { type AutoWorld, type AutoWorldOptions, asAuto, autoWorld, type Cable } from './auto-pair.js';
import { abortAfterTest, nextConnection } from './pair.js';

const HEADER_BYTES = 16;

/** The kinds of frames, by the numbers that docs/protocol-auto.md gives them. */
export const Kind = {
  DATA: 1,
  CLOSE: 2,
  OPERATION: 3,
  ANSWER: 4,
  BATCH: 5,
  ACK: 16,
  SWITCH: 17,
  FAST_REQUEST: 18,
  FAST_GRANT: 19,
  FAST_DECLINE: 20,
  FAST_FAILED: 21,
  CLAIM: 32,
  PROOF: 33,
  PROVED: 34,
  READY: 35,
  HELLO: 48,
  CHALLENGE: 49,
  AUTHENTICATE: 50,
  WELCOME: 51,
  REFUSE: 52,
} as const;

/** What FAST_GRANT says, as far as paths are proved with it. */
export interface Granted {
  readonly number: number;
  readonly token: string;
  readonly key: string;
}

/** What one side alone can say of a path of a session. */
export function pathProof(side: 'client' | 'server', session: string, grant: Granted): Buffer {
  const { number, token, key } = grant;
  const hmac = createHmac('sha256', Buffer.from(key, 'base64url'));
  return hmac.update(`verbmq-auto-1 ${side} ${number} ${session} ${token}`).digest();
}

export interface RawHeader {
  /** The byte behind the kind. */
  readonly second?: number;
  readonly messages?: number;
  readonly sequence?: number;
  readonly acknowledged?: number;
  readonly credit?: number;
}

/** Speaks the protocol of auto connections byte by byte, rightly or not, over a connection of another transport. */
export class RawAutoPeer {
  readonly connection: Connection;
  readonly #frames: Buffer[] = [];
  #session = '';
  #wake: () => void = () => {};

  constructor(connection: Connection) {
    this.connection = connection;
    connection.onMessage((message) => {
      this.#frames.push(Buffer.from(message.data));
      this.#wake();
    });
    void connection.closed.then(() => this.#wake());
  }

  static async connect(transport: Transport, address: Address): Promise<RawAutoPeer> {
    return new RawAutoPeer(abortAfterTest(await transport.connect(address)));
  }

  /** Opens a session; answers with the fields of the welcome. */
  async open(more: object = {}): Promise<Record<string, unknown>> {
    this.sendJson(Kind.HELLO, {
      version: 1,
      maxMessageBytes: 1000,
      windowBytes: 100_000,
      nonce: 'AAAAAAAAAAAAAAAAAAAAAA',
      ...more,
    });
    const welcome = await this.json(Kind.WELCOME);
    this.#session = welcome.session as string;
    return welcome;
  }

  /** Asks for a fast path; answers with what was granted, where to connect to, and what to say there. */
  async ask(
    number: number,
  ): Promise<{ grant: Granted; port: number; claim: { token: string; proof: string } }> {
    this.sendJson(Kind.FAST_REQUEST, { number });
    const { addresses, ...rest } = await this.json(Kind.FAST_GRANT);
    const grant = rest as unknown as Granted;
    const proof = pathProof('client', this.#session, grant).toString('base64url');
    const { port } = (addresses as { port: number }[])[0]!;
    return { grant, port, claim: { token: grant.token, proof } };
  }

  sendJson(kind: number, value: unknown): void {
    this.send(kind, Buffer.from(JSON.stringify(value)));
  }

  send(kind: number, payload: Uint8Array = new Uint8Array(0), header: RawHeader = {}): void {
    const frame = Buffer.alloc(HEADER_BYTES + payload.byteLength);
    frame[0] = kind;
    frame[1] = header.second ?? 0;
    frame.writeUInt16LE(header.messages ?? 0, 2);
    frame.writeUInt32LE((header.sequence ?? 0) >>> 0, 4);
    frame.writeUInt32LE((header.acknowledged ?? 0) >>> 0, 8);
    frame.writeUInt32LE((header.credit ?? 0) >>> 0, 12);
    frame.set(payload, HEADER_BYTES);
    this.sendBytes(frame);
  }

  sendBytes(frame: Uint8Array): void {
    this.connection.send(frame).catch(() => {}); // the tests look at how it ended
  }

  /** The payload of the next frame of this kind; others before it are passed over. */
  async next(kind: number): Promise<Buffer> {
    for (;;) {
      const at = this.#frames.findIndex((frame) => frame[0] === kind);
      if (at >= 0) return this.#frames.splice(0, at + 1)[at]!.subarray(HEADER_BYTES);
      if (this.connection.state === 'closed') throw new Error(`it ended before a frame of kind ${kind} came`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async json(kind: number): Promise<Record<string, unknown>> {
    return JSON.parse((await this.next(kind)).toString()) as Record<string, unknown>;
  }
}

/** A transport on a cable of `autoWorld`, for a side that speaks for itself there. */
export function rawTransport({ network }: Cable): MemoryTransport {
  const transport = new MemoryTransport({ network });
  onTestFinished(() => transport.close());
  return transport;
}

export interface RawPair extends Omit<AutoWorld, 'url'> {
  readonly listener: Listener;
  readonly raw: RawAutoPeer;
  readonly server: AutoConnection;
}

/** A server with one session, whose client says what the test wants. */
export async function rawPair(options: AutoWorldOptions = {}): Promise<RawPair> {
  const world = autoWorld(options);
  const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
  const accepted = nextConnection(listener);
  const raw = await RawAutoPeer.connect(rawTransport(world.base), listener.address);
  await raw.open();
  return { ...world, listener, raw, server: asAuto(abortAfterTest(await accepted)) };
}
