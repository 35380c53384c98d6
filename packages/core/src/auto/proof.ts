import { createHmac } from 'node:crypto';
import type { PathNumber } from './session.js';

/** What the two sides of a session know of a fast path that was granted, and nobody else: it was said on the base connection alone. */
export interface PathSecret {
  readonly session: string;
  readonly number: PathNumber;
  /** Names the grant on the fast connection, where others may read it. */
  readonly token: string;
  /** 32 random bytes, in base64url. It is never said on the fast connection. */
  readonly key: string;
}

export const KEY_BYTES = 32;

/**
 * 32 bytes that only those two can say of the path, and each of them only for itself: whoever hears those of the one, or stands in its
 * place, cannot answer with those of the other.
 */
export function proofBytes(
  { session, number, token, key }: PathSecret,
  side: 'client' | 'server',
): Uint8Array {
  const hmac = createHmac('sha256', Buffer.from(key, 'base64url'));
  return new Uint8Array(hmac.update(`verbmq-auto-1 ${side} ${number} ${session} ${token}`).digest());
}

/** The same as text. */
export function proofText(secret: PathSecret, side: 'client' | 'server'): string {
  return Buffer.from(proofBytes(secret, side)).toString('base64url');
}
