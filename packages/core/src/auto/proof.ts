import { createHash } from 'node:crypto';

/** What a fast connection must carry unchanged before it is used: 32 bytes that both sides derive from its token. */
export function proofBytes(token: string): Uint8Array {
  return new Uint8Array(createHash('sha256').update(`verbmq-auto-1 proof ${token}`).digest());
}
