// Who hears of what: the endpoints of an engine, without an addon.
import { expect, test } from 'vitest';
import {
  type Addon,
  type EngineOptions,
  EventKind,
  HANDLE_INDEX_MASK,
  type Handle,
  Ring,
} from '../src/binding.js';
import { resolveRdmaOptions } from '../src/options.js';
import { type Endpoint, RdmaEngine } from '../src/rdma-engine.js';

/** An engine that tells what it is told to, and the handles of ends that nobody has heard of. */
function engineWithoutAddon(): {
  engine: RdmaEngine;
  end: (handle: Handle) => void;
  ownerless: Handle[];
} {
  const ownerless: Handle[] = [];
  let end: (handle: Handle) => void = () => {};
  class Engine {
    constructor({ events, ring }: EngineOptions, dispatch: () => void) {
      end = (handle) => {
        events.set([EventKind.closed, handle, 0, 0]);
        ring[Ring.delivering] = 1;
        dispatch();
        ring[Ring.delivering] = 0;
      };
    }
    takeFailure(handle: Handle): void {
      ownerless.push(handle);
    }
  }
  const engine = new RdmaEngine({ Engine } as unknown as Addon, resolveRdmaOptions({}));
  return { engine, end: (handle) => end(handle), ownerless };
}

interface Recorded extends Endpoint {
  readonly heard: number[];
}

function endpoint(handle: Handle): Recorded {
  const heard: number[] = [];
  return { handle, heard, messageArrived: () => {}, eventArrived: (kind) => heard.push(kind) };
}

const PLACE = 7;
const FORMER: Handle = PLACE + (HANDLE_INDEX_MASK + 1);
const LATTER: Handle = PLACE + 2 * (HANDLE_INDEX_MASK + 1);

test('both of a place hear of their ends, whichever was registered first', () => {
  for (const order of [
    [FORMER, LATTER],
    [LATTER, FORMER],
  ]) {
    const { engine, end, ownerless } = engineWithoutAddon();
    const both = order.map(endpoint);
    for (const each of both) engine.register(each);
    for (const { handle } of both) end(handle);
    expect(both.map(({ heard }) => heard)).toEqual([[EventKind.closed], [EventKind.closed]]);
    expect(ownerless).toEqual([]);
  }
});

test('a connection that takes the place of its attempt leaves nothing of it behind', () => {
  const { engine, end, ownerless } = engineWithoutAddon();
  const attempt = endpoint(LATTER);
  engine.register(attempt);
  // A request whose end is on its way already: its place was the attempt's before it was heard of.
  const request = endpoint(FORMER);
  engine.register(request);
  engine.unregister(request);
  const connection = endpoint(LATTER);
  engine.register(connection);
  engine.unregister(connection);
  end(LATTER);
  expect([attempt.heard, connection.heard]).toEqual([[], []]);
  expect(ownerless).toEqual([LATTER]);
});
