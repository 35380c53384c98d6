import { randomBytes } from 'node:crypto';
import { VerbmqError } from '../contract/errors.js';
import { FrameKind, jsonFrame, parseJsonFrame, protocolError } from './frames.js';

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

/** @throws VerbmqError `ERR_VERBMQ_VERSION`, `ERR_VERBMQ_PROTOCOL` */
export function parseHello(frame: Uint8Array): Hello {
  const fields = parseJsonFrame(frame);
  if (fields.version !== VERSION) {
    throw new VerbmqError(
      'ERR_VERBMQ_VERSION',
      `the peer speaks version ${String(fields.version)} of the auto protocol, and this side version ${VERSION}`,
    );
  }
  const resume = fields.resume as Record<string, unknown> | undefined;
  return {
    ...parseLimits(fields),
    nonce: text(fields, 'nonce'),
    fastReason: optionalText(fields, 'fastReason'),
    fastRequired: fields.fastRequired === true,
    resume:
      resume === undefined
        ? undefined
        : { ...parseTicket(resume), epoch: whole(resume, 'epoch', 0, 2 ** 32 - 1) },
  };
}

export function welcomeFrame({ ticket, ...rest }: Welcome): Uint8Array {
  return jsonFrame(FrameKind.WELCOME, { ...rest, ...ticket });
}

/** @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
export function parseWelcome(frame: Uint8Array): Welcome {
  const fields = parseJsonFrame(frame);
  return {
    ...parseLimits(fields),
    ticket: parseTicket(fields),
    fastReason: optionalText(fields, 'fastReason'),
    fastRequired: fields.fastRequired === true,
    resumed: fields.resumed === true,
  };
}

export function refusalFrame(reason: RefusalReason, message: string): Uint8Array {
  return jsonFrame(FrameKind.REFUSE, { version: VERSION, reason, message });
}

/** The error that a refusal is for the client. */
export function errorOfRefusal(frame: Uint8Array): VerbmqError {
  const fields = parseJsonFrame(frame);
  const reason = text(fields, 'reason');
  const code =
    reason === 'version'
      ? 'ERR_VERBMQ_VERSION'
      : reason === 'overloaded'
        ? 'ERR_VERBMQ_OVERLOADED'
        : 'ERR_VERBMQ_REJECTED';
  return new VerbmqError(
    code,
    `the peer refused the connection (${reason}): ${optionalText(fields, 'message') ?? ''}`,
    { reason },
  );
}

/** A field that must be text of at most 1,024 characters. */
export function text(fields: Readonly<Record<string, unknown>>, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string' || value.length > 1024)
    throw protocolError(`its field ${name} must be a text of at most 1,024 characters`);
  return value;
}

export function optionalText(fields: Readonly<Record<string, unknown>>, name: string): string | undefined {
  return fields[name] === undefined ? undefined : text(fields, name);
}

export function whole(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  min: number,
  max: number,
): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max)
    throw protocolError(`its field ${name} must be a whole number from ${min} to ${max}`);
  return value;
}

function parseLimits(fields: Readonly<Record<string, unknown>>): {
  maxMessageBytes: number;
  windowBytes: number;
} {
  return {
    maxMessageBytes: whole(fields, 'maxMessageBytes', 1, 2 ** 30),
    windowBytes: whole(fields, 'windowBytes', 1, 2 ** 30),
  };
}

function parseTicket(fields: Readonly<Record<string, unknown>>): Ticket {
  return { session: text(fields, 'session'), secret: text(fields, 'secret') };
}
