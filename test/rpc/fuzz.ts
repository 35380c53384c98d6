import { MsgpackCodec } from '@verbmq/core/codec';
import { client, rpcStats, serve } from '@verbmq/core/rpc';
import fc from 'fast-check';
import { expect } from 'vitest';
import { turns } from '../support/expectations.js';
import { fuzz } from '../support/fuzz.js';
import { repeatedPair } from '../support/pair.js';
import type { SetUp } from '../support/set-up.js';
import {
  CALL,
  CANCEL,
  CREDIT,
  END,
  ERROR,
  ITEM,
  ITEM_TO_CALLER,
  METHODS,
  NAMED,
  PARTIAL,
  PIECE,
  RAW,
  RESULT,
  STREAM_IN,
  service,
  text,
} from './frames.js';

/**
 * Frames of all kinds, of which most make no sense.
 * @param share of the time that fuzz tests take
 */
export function rpcFuzz(setUp: SetUp, share = 1): void {
  const connect = repeatedPair(setUp);
  const codec = new MsgpackCodec();
  const small = fc.integer({ min: 0, max: 6 });
  const head = fc.tuple(
    fc.constantFrom(
      CALL,
      CANCEL,
      ITEM,
      END,
      CREDIT,
      PIECE,
      RESULT,
      ERROR,
      ITEM_TO_CALLER,
      METHODS,
      0x20,
      0xa0,
    ),
    fc.oneof(
      fc.integer({ min: 0, max: 255 }),
      fc.constantFrom(0, RAW, NAMED, NAMED | STREAM_IN, NAMED | PARTIAL),
    ),
    small,
  );
  const rest = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc
      .constantFrom('echo', 'hang', 'endless', 'ignore')
      .map((name) => Uint8Array.from([...text(name), ...text('msgpack')])),
    fc
      .tuple(fc.constantFrom('echo', 'ignore'), fc.jsonValue())
      .map(([name, value]) =>
        Buffer.concat([Uint8Array.from([...text(name), ...text('msgpack')]), codec.encode(value, 0)]),
      ),
  );
  const frame = fc.tuple(head, rest).map(([start, tail]) => Buffer.concat([Uint8Array.from(start), tail]));

  fuzz(
    'each connection answers or ends, and leaves nothing behind',
    fc.asyncProperty(
      fc.array(fc.oneof(frame, fc.uint8Array({ maxLength: 20 })), { maxLength: 20 }),
      async (frames) => {
        const { client: raw, server: far } = await connect();
        const server = serve(far, service);
        const api = client<typeof service>(far);
        const call = api.echo(1).catch(() => {});
        raw.onMessage(() => {});
        for (const bytes of frames) if (raw.state === 'open') raw.trySend(bytes);
        await turns(6);
        raw.abort('enough');
        await Promise.all([raw.closed, far.closed, call]);
        expect(server.stats()).toMatchObject({ running: 0, connections: 0 });
        expect(rpcStats(far)).toMatchObject({ pendingCalls: 0, runningCalls: 0, backlogBytes: 0 });
      },
    ),
    share,
  );
}
