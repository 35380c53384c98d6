import { createHmac, timingSafeEqual } from 'node:crypto';
import type { DescriptorFields } from '@verbmq/core/transport-kit';

/** What a descriptor's key says, when it was signed by the owner for this connection. */
export interface MemoryKey {
  /** The device's key. */
  readonly rkey: number;
  /** Names the exposure, for as long as the connection lives. */
  readonly number: number;
}

/** rkey u32, number u32, little-endian, then the signature. */
const SIGNATURE_AT = 8;
const SIGNATURE_BYTES = 16;

/**
 * The key of a descriptor. The signature covers the whole descriptor and is made with a secret that only the two ends of this
 * connection know. So a descriptor that was changed, or belongs to another connection, is found out before it is used,
 * on every device alike: most devices do not tell their owner that they have refused something. What a peer can do that
 * forges requests to the device itself is bounded by the device: keys of this connection's protection domain, bounds, rights.
 */
export function signKey(
  secret: Uint8Array,
  fields: Omit<DescriptorFields, 'key'>,
  { rkey, number }: MemoryKey,
): Uint8Array {
  const key = Buffer.alloc(SIGNATURE_AT + SIGNATURE_BYTES);
  key.writeUInt32LE(rkey, 0);
  key.writeUInt32LE(number, 4);
  key.set(signature(secret, fields, key.subarray(0, SIGNATURE_AT)), SIGNATURE_AT);
  return key;
}

/** Nothing when the owner has not signed this for this connection. */
export function verifyKey(secret: Uint8Array, fields: DescriptorFields): MemoryKey | undefined {
  if (fields.key.byteLength !== SIGNATURE_AT + SIGNATURE_BYTES) return undefined;
  const key = Buffer.from(fields.key);
  const expected = signature(secret, fields, key.subarray(0, SIGNATURE_AT));
  if (!timingSafeEqual(expected, key.subarray(SIGNATURE_AT))) return undefined;
  return { rkey: key.readUInt32LE(0), number: key.readUInt32LE(4) };
}

function signature(
  secret: Uint8Array,
  { address, byteLength, access }: Omit<DescriptorFields, 'key'>,
  names: Uint8Array,
): Buffer {
  const signed = Buffer.alloc(17);
  signed.writeBigUInt64LE(address, 0);
  signed.writeBigUInt64LE(BigInt(byteLength), 8);
  signed[16] = (access.read ? 1 : 0) | (access.write ? 2 : 0) | (access.atomic ? 4 : 0);
  return createHmac('sha256', secret).update(signed).update(names).digest().subarray(0, SIGNATURE_BYTES);
}
