import { checkOptions } from '../contract/options.js';
import { FrameError, type FrameReader } from './frame-reader.js';
import type { FrameWriter } from './frame-writer.js';
import { MAX_METADATA_BYTES } from './protocol.js';

/** Texts that travel beside a call: `traceparent`, a tenant, a token. At most 8 KiB in all. */
export type Metadata = Readonly<Record<string, string>>;

/**
 * @throws TypeError when `metadata` is not an object of strings, RangeError when it is too large.
 */
export function writeMetadata(writer: FrameWriter, metadata: Metadata): void {
  checkOptions('metadata', metadata);
  const names = Object.keys(metadata);
  const start = writer.length;
  writer.number(names.length);
  for (const name of names) {
    const value = metadata[name];
    if (typeof value !== 'string') throw new TypeError(`metadata ${JSON.stringify(name)} must be a string`);
    if (name.length + value.length > MAX_METADATA_BYTES) throw tooLarge();
    writer.text(name).text(value);
    if (writer.length - start > MAX_METADATA_BYTES) throw tooLarge();
  }
}

/** @throws FrameError for metadata that are cut off or too large. */
export function readMetadata(reader: FrameReader): Metadata {
  const start = reader.position;
  const count = reader.number();
  if (count > reader.remaining) throw new FrameError('metadata are cut off');
  // Without a prototype, so that no name means anything.
  const metadata: Record<string, string> = Object.create(null);
  for (let i = 0; i < count; i++) {
    const name = reader.text(MAX_METADATA_BYTES);
    metadata[name] = reader.text(MAX_METADATA_BYTES);
    if (reader.position - start > MAX_METADATA_BYTES) throw new FrameError('metadata are too large');
  }
  return metadata;
}

function tooLarge(): RangeError {
  return new RangeError(`metadata may hold ${MAX_METADATA_BYTES} bytes at most`);
}
