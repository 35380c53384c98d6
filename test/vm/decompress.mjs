import { runCommand } from './run-command.mjs';

/** First bytes of a compressed stream, and who reads it. Distributions differ, for the kernel and for its modules. */
const formats = [
  { magic: Buffer.from('fd377a585a00', 'hex'), command: 'xz' },
  { magic: Buffer.from('28b52ffd', 'hex'), command: 'zstd' },
];

/**
 * @param {Buffer} bytes
 * @returns {Buffer} the contents; the bytes themselves when they are not compressed in a known way
 */
export function decompress(bytes) {
  const format = formats.find(({ magic }) => bytes.subarray(0, magic.length).equals(magic));
  return format ? runCommand(format.command, ['-dc'], { input: bytes }) : bytes;
}
