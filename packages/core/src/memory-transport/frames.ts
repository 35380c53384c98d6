import type { ErrorCode } from '../contract/errors.js';

/** What a side asks of the peer's exposed memory. */
export type MemoryRequest =
  | { readonly operation: 'read'; readonly offset: number; readonly length: number }
  | { readonly operation: 'write'; readonly offset: number; readonly data: Uint8Array }
  | { readonly operation: 'fetchAdd'; readonly offset: number; readonly addend: bigint }
  | {
      readonly operation: 'compareAndSwap';
      readonly offset: number;
      readonly expected: bigint;
      readonly desired: bigint;
    };

/** What two ends of a memory connection tell each other. */
export type Frame =
  | {
      readonly kind: 'message';
      readonly data: Uint8Array;
      /** Where the sender has only lent the bytes: they are copied at delivery. */
      /** Its length when it was sent. */
      readonly bytes: number;
      readonly borrowed: { resolve(): void; reject(error: unknown): void } | undefined;
    }
  /** The receiver has room again. */
  | { readonly kind: 'credit'; readonly bytes: number; readonly messages: number }
  | {
      readonly kind: 'request';
      readonly id: number;
      readonly key: Uint8Array;
      readonly request: MemoryRequest;
    }
  | { readonly kind: 'answer'; readonly id: number; readonly value: Uint8Array | bigint | undefined }
  | { readonly kind: 'ping' }
  | { readonly kind: 'pong' }
  | { readonly kind: 'close' }
  /** The sender has ended the connection, for the reason that `code` and `reason` give. */
  | { readonly kind: 'abort'; readonly code: ErrorCode; readonly reason: string };

/** What a frame brings with it. */
export function bytesOf(frame: Frame): number {
  if (frame.kind === 'message') return frame.data.length;
  return frame.kind === 'request' && frame.request.operation === 'write' ? frame.request.data.length : 0;
}
