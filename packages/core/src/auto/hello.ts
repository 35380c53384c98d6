import { randomBytes } from 'node:crypto';
import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { Fields, MAX_TEXT_LENGTH } from './fields.js';
import { FrameKind, HEADER_BYTES, jsonFrame, MAX_CONTROL_BYTES, protocolError } from './frames.js';

/** The version of the protocol between auto connections. */
export const VERSION = 1;

/** What a session is resumed with: a name, and a secret that only its two sides have. */
export interface Ticket {
  readonly session: string;
  readonly secret: string;
}

/** The client's first word on a new base connection. */
export interface Hello {
  readonly maxMessageBytes: number;
  readonly windowBytes: number;
  /** 16 random bytes. */
  readonly nonce: string;
  /** Whether the client could use a fast path now; if not, why not. */
  readonly fastReason: string | undefined;
  /** Whether no message of the session may go on the base connection. */
  readonly fastRequired: boolean;
  /** Present where a session is resumed, with the client's epoch. */
  readonly resume: (Ticket & { readonly epoch: number }) | undefined;
}

/** The server's answer. */
export interface Welcome {
  readonly maxMessageBytes: number;
  readonly windowBytes: number;
  readonly ticket: Ticket;
  readonly fastReason: string | undefined;
  readonly fastRequired: boolean;
  readonly resumed: boolean;
}

/** Why a server refuses; the client's error has it as its `reason`. */
export type RefusalReason = 'version' | 'authentication' | 'overloaded' | 'session-unknown' | 'protocol';

export function makeTicket(): Ticket {
  return { session: randomName(), secret: randomName() };
}

/** 16 random bytes, as text. */
export function randomName(): string {
  return randomBytes(16).toString('base64url');
}

export function helloFrame(hello: Hello): Uint8Array {
  return jsonFrame(FrameKind.HELLO, { version: VERSION, ...hello });
}

/**
 * Whether a base connection carries what is said on it, and the frames of a session with messages of up to `maxMessageBytes`.
 * @throws VerbmqError `ERR_VERBMQ_PROTOCOL` where the peer said that it takes less.
 */
export function assertCarries({ maxMessageBytes: carried }: Connection, maxMessageBytes = 0): void {
  const needed = Math.max(MAX_CONTROL_BYTES, HEADER_BYTES + maxMessageBytes);
  if (carried < needed)
    throw protocolError(`its base connection carries ${carried} bytes, and ${needed} are needed`);
}

/** @throws VerbmqError `ERR_VERBMQ_VERSION`, `ERR_VERBMQ_PROTOCOL` */
export function parseHello(frame: Uint8Array): Hello {
  const fields = Fields.ofFrame(frame);
  const version = fields.number('version');
  if (version !== VERSION) {
    throw new VerbmqError(
      'ERR_VERBMQ_VERSION',
      `the peer speaks version ${version} of the auto protocol, and this side version ${VERSION}`,
    );
  }
  const resume = fields.optionalObject('resume');
  return {
    ...parseLimits(fields),
    nonce: fields.text('nonce'),
    fastReason: fields.optionalText('fastReason'),
    fastRequired: fields.optionalBoolean('fastRequired'),
    resume:
      resume === undefined
        ? undefined
        : { ...parseTicket(resume), epoch: resume.whole('epoch', 0, 2 ** 32 - 1) },
  };
}

export function welcomeFrame({ ticket, ...rest }: Welcome): Uint8Array {
  return jsonFrame(FrameKind.WELCOME, { ...rest, ...ticket });
}

/** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
export function parseWelcome(frame: Uint8Array): Welcome {
  const fields = Fields.ofFrame(frame);
  return {
    ...parseLimits(fields),
    ticket: parseTicket(fields),
    fastReason: fields.optionalText('fastReason'),
    fastRequired: fields.optionalBoolean('fastRequired'),
    resumed: fields.boolean('resumed'),
  };
}

export function refusalFrame(reason: RefusalReason, message: string): Uint8Array {
  return jsonFrame(FrameKind.REFUSE, {
    version: VERSION,
    reason,
    message: message.slice(0, MAX_TEXT_LENGTH),
  });
}

/** The error that a refusal is for the client. Its version is not judged: a server of another one says so in these words. */
export function errorOfRefusal(frame: Uint8Array): VerbmqError {
  const fields = Fields.ofFrame(frame);
  const reason = fields.text('reason');
  const code =
    reason === 'version'
      ? 'ERR_VERBMQ_VERSION'
      : reason === 'overloaded'
        ? 'ERR_VERBMQ_OVERLOADED'
        : 'ERR_VERBMQ_REJECTED';
  return new VerbmqError(
    code,
    `the peer refused the connection (${reason}): ${fields.optionalText('message') ?? ''}`,
    { reason },
  );
}

function parseLimits(fields: Fields): { maxMessageBytes: number; windowBytes: number } {
  return {
    maxMessageBytes: fields.whole('maxMessageBytes', 1, 2 ** 30),
    windowBytes: fields.whole('windowBytes', 1, 2 ** 30),
  };
}

function parseTicket(fields: Fields): Ticket {
  return { session: fields.text('session'), secret: fields.text('secret') };
}
