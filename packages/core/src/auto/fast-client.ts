import type { HostAddress, PathAddress } from '../contract/address.js';
import type { Connection } from '../contract/connection.js';
import { isVerbmqError, VerbmqError } from '../contract/errors.js';
import type { ConnectOptions, Transport } from '../contract/transport.js';
import { sameBytes } from './authentication.js';
import { Fields } from './fields.js';
import { FrameKind, HEADER_BYTES, jsonFrame } from './frames.js';
import { MAX_FAST_ADDRESSES } from './options.js';
import type { PathReason } from './path-info.js';
import { type PathSecret, proofBytes, proofText } from './proof.js';

/** What the server lets a client try, once. */
export interface Grant extends PathSecret {
  readonly addresses: readonly HostAddress[];
}

/** An attempt that came to nothing, with the reason for the path. */
export class FastFailure extends Error {
  readonly reason: PathReason;

  constructor(reason: PathReason, message: string, cause?: unknown) {
    super(message, { cause });
    this.reason = reason;
  }
}

/**
 * @param session the name of the session in which it came
 * @param host stands for the addresses that have none: the client reaches the server there already.
 */
export function parseGrant(frame: Uint8Array, session: string, host: string): Grant {
  const fields = Fields.ofFrame(frame);
  return {
    session,
    number: fields.whole('number', 1, 2 ** 32 - 1),
    token: fields.text('token'),
    key: fields.text('key'),
    addresses: fields.objects('addresses', MAX_FAST_ADDRESSES).map((address) => ({
      host: address.optionalText('host') ?? host,
      port: address.whole('port', 1, 65_535),
    })),
  };
}

/** The host of the base connection, where it has one. */
export function hostOf(address: HostAddress | PathAddress): string {
  return 'host' in address ? address.host : 'localhost';
}

/**
 * Opens a fast connection to the first address that can be reached, and proves it: a message each way, and where this
 * side of it has one-sided operations a READ, all with contents that both sides know. Only then is it answered with.
 * @throws FastFailure
 */
export async function openFast(
  fast: Transport,
  grant: Grant,
  options: ConnectOptions,
  leastMessageBytes: number,
  proofTimeoutMs: number,
  signal: AbortSignal,
): Promise<Connection> {
  const connection = await connectFirst(fast, grant.addresses, options, signal);
  const giveUp = (): void => connection.abort('the attempt was given up');
  signal.addEventListener('abort', giveUp);
  const timer = setTimeout(giveUp, proofTimeoutMs);
  try {
    signal.throwIfAborted();
    if (connection.maxMessageBytes < leastMessageBytes) {
      throw new FastFailure(
        'message-limit',
        `its messages have at most ${connection.maxMessageBytes} bytes, and ${leastMessageBytes} are needed`,
      );
    }
    await proveAsClient(connection, grant);
    return connection;
  } catch (error) {
    connection.abort('the path was not proved');
    throw error instanceof FastFailure ? error : new FastFailure('probe-failed', String(error), error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', giveUp);
  }
}

async function connectFirst(
  fast: Transport,
  addresses: readonly HostAddress[],
  options: ConnectOptions,
  signal: AbortSignal,
): Promise<Connection> {
  const { timeoutMs } = options;
  // One that hangs leaves time for the others.
  const share = timeoutMs === undefined ? {} : { timeoutMs: Math.ceil(timeoutMs / addresses.length) };
  let last: unknown;
  for (const address of addresses) {
    try {
      return await fast.connect(address, { ...options, ...share, signal });
    } catch (error) {
      if (signal.aborted) throw error;
      last = error;
    }
  }
  throw new FastFailure(reasonOfConnect(last), last instanceof Error ? last.message : String(last), last);
}

/** What a probe would find now is the reason for which this side cannot use a fast path; anything else is the way to the peer. */
function reasonOfConnect(error: unknown): PathReason {
  const ofThisSide =
    isVerbmqError(error, 'ERR_VERBMQ_UNAVAILABLE') || isVerbmqError(error, 'ERR_VERBMQ_MEMLOCK');
  return (ofThisSide ? error.reason : undefined) ?? 'unreachable';
}

async function proveAsClient(connection: Connection, grant: Grant): Promise<void> {
  const expected = proofBytes(grant, 'server');
  const frames = new FrameReader(connection);
  try {
    const { token } = grant;
    await connection.send(jsonFrame(FrameKind.CLAIM, { token, proof: proofText(grant, 'client') }));
    const proof = Fields.ofFrame(await frames.next(FrameKind.PROOF));
    if (!sameBytes(Buffer.from(proof.text('bytes'), 'base64url'), expected))
      throw new FastFailure('probe-failed', 'a message did not come through unchanged');
    if (connection.capabilities.oneSided !== 'none') {
      const descriptor = proof.optionalText('descriptor');
      if (descriptor === undefined)
        throw new FastFailure(
          'probe-failed',
          'the peer exposes no memory there, so that no read could be tried',
        );
      const read = await connection.attach(descriptor).read(0, expected.byteLength);
      if (!sameBytes(read, expected))
        throw new FastFailure('probe-failed', 'a one-sided read brought other bytes than lie there');
    }
    await connection.send(jsonFrame(FrameKind.PROVED, {}));
    Fields.ofFrame(await frames.next(FrameKind.READY));
  } finally {
    frames.stop();
  }
}

/** Reads the few frames of the proof, one at a time. */
class FrameReader {
  readonly #frames: Uint8Array[] = [];
  readonly #detach: () => void;
  #waiter: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  #error: VerbmqError | undefined;

  constructor(connection: Connection) {
    this.#detach = connection.onMessage((message) => {
      // Each is the answer to one of this side's, so a second one is nothing to be kept.
      if (this.#frames.length > 0) connection.abort('a frame came before it was due');
      else this.#frames.push(new Uint8Array(message.data));
      this.#waiter?.resolve();
    });
    void connection.closed.then(({ error }) => {
      this.#error = error ?? new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', 'the peer closed it');
      this.#waiter?.reject(this.#error);
    });
  }

  async next(kind: number): Promise<Uint8Array> {
    if (this.#frames.length === 0) {
      if (this.#error === undefined) {
        await new Promise<void>((resolve, reject) => {
          this.#waiter = { resolve, reject };
        });
      } else throw this.#error;
    }
    const frame = this.#frames.shift() as Uint8Array;
    if (frame.length < HEADER_BYTES || frame[0] !== kind)
      throw new FastFailure('probe-failed', `a frame of kind ${frame[0]} came where ${kind} was due`);
    return frame;
  }

  stop(): void {
    this.#detach();
  }
}

/** The reason that an error of the fast transport is. */
export function reasonOf(error: unknown): PathReason {
  if (error instanceof FastFailure) return error.reason;
  return isVerbmqError(error) ? (error.reason ?? 'unreachable') : 'unreachable';
}
