// The addon must never be unloaded: threads for drivers may outlive the worker thread that alone had loaded it. The linker option for that is
// easily lost without a failure, since g++ marks some symbols in a way that keeps the library as well, and other compilers do not. So
// this looks at what the dynamic linker goes by. (test/native/pending-calls.test.ts has such a thread.)
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadAddon } from '../src/load-addon.js';

/** Names and values of elf.h, for files of 64 bits. */
const PT_DYNAMIC = 2;
const DT_FLAGS_1 = 0x6fff_fffb;
const DF_1_NODELETE = 8;
const CLASS_64 = 2;
const LITTLE_ENDIAN = 1;

/** The entries of the dynamic section of a library: numbers by their tags. */
function dynamicSection(file: string): Map<number, number> {
  const bytes = readFileSync(file);
  expect([...bytes.subarray(0, 5)]).toEqual([0x7f, ...Buffer.from('ELF'), CLASS_64]);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isLittle = bytes[5] === LITTLE_ENDIAN;
  const short = (at: number): number => view.getUint16(at, isLittle);
  const long = (at: number): number => Number(view.getBigUint64(at, isLittle));
  const [headers, headerBytes, count] = [long(0x20), short(0x36), short(0x38)];
  const entries = new Map<number, number>();
  for (let header = headers; header < headers + count * headerBytes; header += headerBytes) {
    if (view.getUint32(header, isLittle) !== PT_DYNAMIC) continue;
    const [from, length] = [long(header + 0x08), long(header + 0x20)];
    for (let at = from; at < from + length; at += 16) entries.set(long(at), long(at + 8));
  }
  return entries;
}

test('the addon that was loaded stays loaded for as long as the process lives', (context) => {
  const { addon, ...failure } = loadAddon();
  if (addon === undefined) context.skip((failure as { reason: string }).reason);
  const files = readFileSync('/proc/self/maps', 'utf8').match(/\/.*\/verbmq_native\.node$/gm);
  expect(new Set(files).size).toBe(1);
  const flags = dynamicSection(files?.[0] as string).get(DT_FLAGS_1) ?? 0;
  expect(flags & DF_1_NODELETE).toBe(DF_1_NODELETE);
});
