/** Messages as those peers carry them whose wire is JSON. The benchmark's messages are text of one byte a character. */

export function toText(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('latin1');
}

export function fromText(text: string): Uint8Array {
  return Buffer.from(text, 'latin1');
}
