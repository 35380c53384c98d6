/** The frames of rpc as bytes, and a service to be attacked with them. See packages/core/src/rpc/protocol.ts. */

export const CALL = 0x01;
export const CANCEL = 0x02;
export const ITEM = 0x03;
export const END = 0x04;
export const CREDIT = 0x05;
export const PIECE = 0x06;
export const RESULT = 0x81;
export const ERROR = 0x82;
export const ITEM_TO_CALLER = 0x83;
export const CREDIT_TO_CALLER = 0x85;
export const PIECE_TO_CALLER = 0x86;
export const METHODS = 0x87;

export const RAW = 0x01;
export const METADATA = 0x02;
export const PARTIAL = 0x04;
export const DEADLINE = 0x08;
export const NAMED = 0x10;
export const STREAM_IN = 0x20;
export const STREAM_OUT = 0x40;

/** A whole number as it stands in a frame. */
export function number(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return [...bytes, rest];
}
export const text = (value: string): number[] => [Buffer.byteLength(value), ...Buffer.from(value)];
export const named = (id: number, method: string, flags = 0, ...rest: number[]): number[] => [
  CALL,
  NAMED | flags,
  id,
  ...text(method),
  ...text('msgpack'),
  ...rest,
];
/** A text of up to 31 bytes as msgpack has it. */
export const packedText = (value: string): number[] => [0xa0 + value.length, ...Buffer.from(value)];
/** 1 MiB and 2 GiB as they stand in a frame. */
export const MIB = [0x80, 0x80, 0x40];
export const GIB2 = [0x80, 0x80, 0x80, 0x80, 0x08];

export const service = {
  echo: (body: unknown) => body,
  hang: () => new Promise<void>(() => {}),
  async *endless() {
    for (;;) yield new Uint8Array(1000);
  },
  async ignore(_: AsyncIterable<unknown>) {
    await new Promise(() => {});
  },
};

/** Methods of different names, a hundred in a frame. */
export function manyMethods(count: number): number[][] {
  const frames: number[][] = [];
  for (let at = 0; at < count; at += 100) {
    const names = Array.from({ length: Math.min(100, count - at) }, (_, i) => text(`method ${at + i}`));
    frames.push([METHODS, 1, ...number(at), ...text('msgpack'), ...names.flat()]);
  }
  return frames;
}

/** Bodies that a codec must not make anything of, alone or within another one. */
export const BODIES: [string, number[]][] = [
  ['deep nesting', [...new Array<number>(10_000).fill(0x91), 1]],
  ['an array of 4 billion', [0xdd, 0xff, 0xff, 0xff, 0xff]],
  ['a type of the codec', [0xd4, 0x72, 0x40, 0x90]],
];

/** A text of so many bytes of which none is UTF-8: what is made of it takes three times as many when it is sent on. */
export const brokenText = (bytes: number): number[] => [
  0xda,
  bytes >> 8,
  bytes & 0xff,
  ...new Array<number>(bytes).fill(0xff),
];

/** An object whose `__proto__` is another one, `polluted` for all who inherit from it. */
export const POLLUTION = [0x81, ...packedText('__proto__'), 0x81, ...packedText('polluted'), 0xc3];
