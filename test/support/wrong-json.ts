import { createHmac } from 'node:crypto';
import { expect, onTestFinished } from 'vitest';
import { turns } from './expectations.js';
import type { RawAutoPeer } from './raw-auto-peer.js';

/** What a field must be. With a question mark it may be absent. */
type Due = 'text' | 'number' | 'boolean' | 'object' | 'list' | 'text?' | 'boolean?' | 'object?';

/** How the reader of a frame took it. */
export type Outcome = 'taken' | 'refused';

interface Frame {
  readonly due: Readonly<Record<string, Due>>;
  readonly valid: object;
}

export const LIMITS = { maxMessageBytes: 1000, windowBytes: 100_000 };
const LIMITS_DUE = { maxMessageBytes: 'number', windowBytes: 'number' } as const;
export const RESUME_DUE = {
  resume: 'object?',
  'resume.session': 'text',
  'resume.secret': 'text',
  'resume.epoch': 'number',
} as const;

export const HELLO: Frame = {
  valid: {
    version: 1,
    ...LIMITS,
    nonce: 'AAAAAAAAAAAAAAAAAAAAAA',
    fastReason: 'policy',
    fastRequired: false,
  },
  due: { version: 'number', ...LIMITS_DUE, nonce: 'text', fastReason: 'text?', fastRequired: 'boolean?' },
};
export const WELCOME: Frame = {
  valid: { ...LIMITS, session: 's', secret: 't', fastReason: 'policy', fastRequired: false, resumed: false },
  due: {
    ...LIMITS_DUE,
    session: 'text',
    secret: 'text',
    fastReason: 'text?',
    fastRequired: 'boolean?',
    resumed: 'boolean',
  },
};
export const NOTHING: Frame = { valid: {}, due: {} };

const ABSENT = Symbol('absent');
const OTHERS: readonly [what: string, value: unknown, type: Due | undefined][] = [
  ['null', null, undefined],
  ['a number', 7, 'number'],
  ['a number that is not whole', 1e300, 'number'],
  ['a text', 'text', 'text'],
  ['true', true, 'boolean'],
  ['an empty list', [], 'list'],
  ['a list', [null, 1, {}], 'list'],
  ['an empty object', {}, 'object'],
  ['an object that is no text', { toString: null, valueOf: 1, length: 3 }, 'object'],
  ['a text that is too long', 'x'.repeat(5000), undefined],
  ['a text that is longer than a frame', 'x'.repeat(20_000), undefined],
  ['nothing', ABSENT, undefined],
];

interface Variant {
  readonly what: string;
  readonly value: unknown;
  /** Whether no reader may take it. */
  readonly wrong: boolean;
}

/** The frame as it should be, each field in every other way, and in place of the object something else. */
function variantsOf({ valid, due }: Frame): Variant[] {
  const fields = Object.entries(due).flatMap(([path, type]) =>
    OTHERS.map(([other, value, otherType]) => ({
      what: `${path} is ${other}`,
      value: replaced(valid, path.split('.'), value),
      wrong: value === ABSENT ? !type.endsWith('?') : otherType !== type.replace('?', ''),
    })),
  );
  const wholes = OTHERS.filter(([, value, type]) => type !== 'object' && value !== ABSENT);
  return [...fields, ...wholes.map(([what, value]) => ({ what: `it is ${what}`, value, wrong: true }))];
}

function replaced(of: unknown, [name, ...rest]: string[], value: unknown): unknown {
  const copy = (Array.isArray(of) ? [...of] : { ...(of as object) }) as Record<string, unknown>;
  if (rest.length > 0) copy[name as string] = replaced(copy[name as string], rest, value);
  else if (value === ABSENT) delete copy[name as string];
  else copy[name as string] = value;
  return copy;
}

/** Gives each variant of a frame to its reader: none is thrown at by it, and it serves others as before. */
export async function tryAll(
  frame: Frame,
  attempt: (value: unknown) => Promise<Outcome>,
  othersWork: () => Promise<unknown>,
): Promise<void> {
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, note);
    onTestFinished(() => void process.off(event, note));
  }
  expect(await attempt(frame.valid), 'as it should be').toBe('taken');
  for (const { what, value, wrong } of variantsOf(frame)) {
    const outcome = attempt(value);
    if (wrong) expect(await outcome, what).toBe('refused');
    else await Promise.race([outcome, turns(20)]); // it may be worth nothing, as the number of another path
    outcome.catch(note);
    expect(thrown, what).toEqual([]);
    await othersWork();
  }
  await turns();
  expect(thrown).toEqual([]);
}

export const KEY = Buffer.alloc(32, 'k');

/** As docs/protocol-auto.md says, of frames whose headers are all zeros but for the kind. */
export function proofOf(speaker: string, said: readonly [kind: number, fields: unknown][]): string {
  const hmac = createHmac('sha256', KEY).update(`verbmq-auto-1 ${speaker}`);
  for (const [kind, fields] of said) {
    const payload = Buffer.from(JSON.stringify(fields));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(16 + payload.length);
    const header = Buffer.alloc(16);
    header[0] = kind;
    hmac.update(length).update(header).update(payload);
  }
  return hmac.digest('base64url');
}

export const firstOf = (peer: RawAutoPeer, kind: number): Promise<Outcome> =>
  peer.next(kind).then(
    () => 'taken',
    () => 'refused',
  );
