import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * Proof that a side has the pre-shared key: HMAC-SHA256 over who speaks and all that was said before, nonces of both sides
 * included, so a proof is worth nothing in another conversation, and neither side can be made to speak for the other.
 */
export function prove(
  key: Uint8Array,
  speaker: 'client' | 'server',
  transcript: readonly Uint8Array[],
): string {
  const hmac = createHmac('sha256', key).update(`verbmq-auto-1 ${speaker}`);
  for (const frame of transcript) {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(frame.byteLength);
    hmac.update(length).update(frame);
  }
  return hmac.digest('base64url');
}

/** Compares in a time that says nothing of where they differ. */
export function sameSecret(one: string, other: string): boolean {
  return sameBytes(Buffer.from(one), Buffer.from(other));
}

/** The same for bytes. */
export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.byteLength === other.byteLength && timingSafeEqual(one, other);
}
