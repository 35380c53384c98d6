import { isVerbmqError } from '@verbmq/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectKept } from '../../../test/support/kept-memory.js';
import { FrameType, MAX_PAYLOAD_BYTES, smallFrame } from '../src/frame.js';
import { FrameParser, type FrameSink } from '../src/frame-parser.js';

/** Collects what the parser brings, streamed frames put together. */
class Collector implements FrameSink {
  readonly frames: { type: number; payload: string }[] = [];
  #stream: Buffer[] = [];
  #streamMissing = 0;

  message(payload: Uint8Array): void {
    this.frame(FrameType.DATA, payload);
  }
  begin(_type: number, length: number): void {
    this.#streamMissing = length;
    this.#stream = [];
  }
  frame(type: number, payload: Uint8Array): void {
    this.frames.push({ type, payload: Buffer.from(payload).toString('hex') });
  }
  stream(type: number, chunk: Uint8Array, start: number, end: number): void {
    this.#stream.push(Buffer.from(chunk.subarray(start, end)));
    this.#streamMissing -= end - start;
    if (this.#streamMissing === 0) this.frame(type, Buffer.concat(this.#stream));
  }
}

const type = fc.constantFrom(
  FrameType.DATA,
  FrameType.DATA_PIECE,
  FrameType.READ_ANSWER,
  FrameType.ABORT,
  FrameType.WRITE,
  FrameType.PING,
  FrameType.WINDOW,
);

const frame = fc.tuple(type, fc.uint8Array({ maxLength: 300 })).map(([kind, bytes]) => {
  if (kind === FrameType.PING) return smallFrame(kind);
  if (kind === FrameType.WINDOW) return smallFrame(kind, new Uint8Array(4));
  const least = { [FrameType.DATA_PIECE]: 1, [FrameType.ABORT]: 2, [FrameType.WRITE]: 13 }[kind as 3] ?? 0;
  return smallFrame(kind, bytes.byteLength < least ? new Uint8Array(least) : bytes);
});

/** Cuts `bytes` where `cuts` say; every place of a cut is as likely as another. */
function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = cuts.map((each) => each % (bytes.byteLength + 1)).sort((a, b) => a - b);
  const edges = [0, ...places, bytes.byteLength];
  return edges.slice(1).map((end, i) => bytes.subarray(edges[i], end));
}

function parse(chunks: readonly Buffer[]): Collector {
  const collector = new Collector();
  const parser = new FrameParser(collector);
  for (const chunk of chunks) parser.push(chunk);
  return collector;
}

const cuts = fc.array(fc.nat(), { maxLength: 40 });

describe('the frame parser', () => {
  it('brings the same frames, wherever the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 12 }), cuts, (frames, places) => {
        const bytes = Buffer.concat(frames);
        const whole = parse([bytes]).frames;
        expect(whole.length).toBe(frames.length);
        expect(whole.map(({ payload }) => payload)).toEqual(
          frames.map((each) => each.subarray(8).toString('hex')),
        );
        expect(parse(cut(bytes, places)).frames).toEqual(whole);
      }),
      { numRuns: 300 },
    );
  });

  it('brings the same frames byte by byte', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 4 }), (frames) => {
        const bytes = Buffer.concat(frames);
        const single = [...bytes].map((byte) => Buffer.from([byte]));
        expect(parse(single).frames).toEqual(parse([bytes]).frames);
      }),
      { numRuns: 50 },
    );
  });

  it('says whether a message is a view of the chunk', () => {
    const parser = new FrameParser(new Collector());
    const piece = smallFrame(FrameType.DATA_PIECE, new Uint8Array(100));
    const message = smallFrame(FrameType.DATA, new Uint8Array(100));
    expect(parser.push(piece)).toBe(false);
    expect(parser.push(Buffer.concat([smallFrame(FrameType.WINDOW, new Uint8Array(4)), piece]))).toBe(false);
    expect(parser.push(Buffer.concat([piece, message, piece]))).toBe(true);
    expect(parser.push(message.subarray(0, 4))).toBe(false);
    expect(parser.push(message.subarray(4))).toBe(true);
    expect(parser.push(message.subarray(0, 50))).toBe(false);
    expect(parser.push(message.subarray(50))).toBe(false); // it was put together in memory of its own
  });

  it('keeps a chunk in its place while something is behind its first message, and no longer', () => {
    const message = smallFrame(FrameType.DATA, new Uint8Array(100));
    for (const behind of [message, message.subarray(0, 20), smallFrame(FrameType.PING)]) {
      const collector = new Collector();
      const lent: Uint8Array[] = [];
      collector.message = (data) => void lent.push(data);
      const chunk = new Uint8Array([...message, ...behind]);
      new FrameParser(collector).push(chunk);
      for (const data of lent) expectKept(data);
      expect(lent[0]?.buffer).toBe(chunk.buffer);
    }
    const alone = new Uint8Array(message);
    new FrameParser(new Collector()).push(alone);
    structuredClone(alone, { transfer: [alone.buffer] });
    expect(alone.byteLength).toBe(0);
  });

  it('takes any bytes in any cuts: refuses them as a violation, or waits, and holds bounded memory', () => {
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 2000 }),
      // Bytes that begin well and then lose their way.
      fc
        .tuple(fc.array(frame, { maxLength: 5 }), fc.uint8Array({ maxLength: 200 }))
        .map(([frames, rest]) => Buffer.concat([...frames, rest])),
      // A header that claims any length.
      fc
        .tuple(type, fc.nat({ max: 0xffffffff }), fc.uint8Array({ maxLength: 500 }))
        .map(([kind, length, rest]) => {
          const header = smallFrame(kind).subarray(0, 8);
          header.writeUInt32LE(length, 0);
          return Buffer.concat([header, rest]);
        }),
    );
    let refused = 0;
    let taken = 0;
    fc.assert(
      fc.property(anything, cuts, (bytes, places) => {
        const collector = new Collector();
        const parser = new FrameParser(collector);
        try {
          for (const chunk of cut(Buffer.from(bytes), places)) {
            parser.push(chunk);
            expect(parser.heldBytes).toBeLessThanOrEqual(MAX_PAYLOAD_BYTES + 100);
          }
          taken++;
        } catch (error) {
          if (!isVerbmqError(error, 'ERR_VERBMQ_PROTOCOL')) throw error;
          refused++;
        } finally {
          parser.stop();
        }
      }),
      { numRuns: 1000 },
    );
    // Otherwise the property would have said nothing about one of the two.
    expect(refused).toBeGreaterThan(50);
    expect(taken).toBeGreaterThan(50);
  });

  it('lets memory grow with what has come, not with what was claimed', () => {
    const claim = smallFrame(FrameType.DATA);
    claim.writeUInt32LE(MAX_PAYLOAD_BYTES, 0);
    const claiming = (): FrameParser => {
      const parser = new FrameParser(new Collector());
      parser.push(claim);
      return parser;
    };
    const held = (each: FrameParser[]): number => each.reduce((sum, { heldBytes }) => sum + heldBytes, 0);

    // 1,000 claims of 1 MiB: the first ones get it from the 16 MiB that there are for all of them, the others 64 KiB.
    const parsers = Array.from({ length: 1000 }, claiming);
    expect(held(parsers)).toBeLessThanOrEqual(16 * 1024 * 1024 + 1000 * 64 * 1024);
    const late = parsers.at(-1) as FrameParser;
    for (let received = 0; received < MAX_PAYLOAD_BYTES - 1000; received += 1000) {
      late.push(Buffer.alloc(1000));
      expect(late.heldBytes).toBeLessThanOrEqual(Math.max(64 * 1024, (received + 1000) * 4));
    }

    // Those that go give back what they had; then others get it.
    for (const parser of parsers) parser.stop();
    expect(held(parsers)).toBe(0);
    const next = claiming();
    expect(next.heldBytes).toBe(MAX_PAYLOAD_BYTES);
    next.stop();
  });

  it('refuses a claim of 4 GiB by its header alone, and quotes it', () => {
    const header = smallFrame(FrameType.DATA);
    header.writeUInt32LE(0xffffffff, 0);
    expect(() => parse([header])).toThrow(/ffffffff01000000 claims 4294967295 bytes/);
  });

  it('refuses unknown types, and flags that it does not know', () => {
    expect(() => parse([smallFrame(200)])).toThrow(/unknown type 200/);
    const flagged = smallFrame(FrameType.PING);
    flagged.writeUInt8(1, 5);
    expect(() => parse([flagged])).toThrow(/malformed/);
  });

  it('parses nothing more once it was stopped, not even the rest of the chunk', () => {
    const seen: number[] = [];
    const parser = new FrameParser({
      message: () => {
        seen.push(FrameType.DATA);
        parser.stop();
      },
      begin: () => {},
      frame: (kind) => seen.push(kind),
      stream: () => {},
    });
    parser.push(
      Buffer.concat([smallFrame(FrameType.DATA), smallFrame(FrameType.DATA), smallFrame(FrameType.PING)]),
    );
    parser.push(smallFrame(FrameType.PING));
    expect(seen).toEqual([FrameType.DATA]);
  });
});
