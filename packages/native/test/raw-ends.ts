import { onTestFinished } from 'vitest';
import { stretched } from '../../../test/support/set-up.js';
import { until } from '../../../test/support/until.js';
import { EventKind, type Handle, type NativeFailure } from '../src/binding.js';
import { loadAddon } from '../src/load-addon.js';
import { type RdmaTransportOptions, resolveRdmaOptions } from '../src/options.js';
import { type Endpoint, RdmaEngine } from '../src/rdma-engine.js';
import { Slab } from '../src/slab.js';

/** Where simulated devices are. */
const LOOPBACK = '127.0.0.1';

/** An event of a connection, as the engine reports it. */
export type RawEvent = readonly [kind: number, a: number, b: number];

/**
 * One end of a connection, straight on the engine: what is between it and `Connection`, tests reach from here, and do
 * what a well-behaved `RdmaConnection` never does.
 */
export class RawEnd implements Endpoint {
  readonly engine: RdmaEngine;
  readonly slab: Slab;
  readonly handle: number;
  readonly events: RawEvent[] = [];
  failure: NativeFailure | undefined;

  constructor(engine: RdmaEngine, slab: Slab, handle: number) {
    this.engine = engine;
    this.slab = slab;
    this.handle = handle;
    engine.register(this);
  }

  messageArrived(slot: number, bytes: number): void {
    this.events.push([EventKind.message, slot, bytes]);
  }

  eventArrived(kind: number, a: number, b: number): void {
    this.events.push([kind, a, b]);
    if (kind === EventKind.closed) this.failure = this.engine.native.takeFailure(this.handle);
  }

  /** The events of one kind so far, once there are `count`. */
  async saw(kind: number, count = 1): Promise<readonly RawEvent[]> {
    const seen = (): RawEvent[] => this.events.filter(([each]) => each === kind);
    await until(() => seen().length >= count);
    return seen();
  }
}

export interface RawPair {
  readonly client: RawEnd;
  readonly server: RawEnd;
}

/** Hears of requests and does nothing about them but what it is told to. */
export class RawListener implements Endpoint {
  readonly handle: Handle;
  readonly port: number;
  readonly events: RawEvent[] = [];
  readonly #engine: RdmaEngine;
  readonly #requested: (request: Handle) => void;

  constructor(engine: RdmaEngine, requested: (request: Handle) => void = () => {}) {
    this.handle = engine.native.listen({ host: LOOPBACK, port: 0, backlog: 128 });
    this.port = engine.native.listenerAddress(this.handle).port;
    this.#engine = engine;
    this.#requested = requested;
    engine.register(this);
  }

  messageArrived(): void {}

  eventArrived(kind: number, a: number, b: number): void {
    this.events.push([kind, a, b]);
    if (kind === EventKind.incoming) this.#requested(a);
  }

  close(): void {
    this.#engine.unregister(this);
    this.#engine.closeListener(this.handle);
  }
}

/** A simulated device, or a real one that has this address. */
export interface RawDevice {
  readonly libraries?: RdmaTransportOptions['libraries'];
  readonly host?: string;
}

export function engineForTest({ libraries = {} }: RawDevice, options: RdmaTransportOptions = {}): RdmaEngine {
  const { addon } = loadAddon();
  if (addon === undefined) throw new Error('the addon is not built');
  const resolved = resolveRdmaOptions({ ...options, libraries });
  const engine = new RdmaEngine(addon, resolved, () => {});
  onTestFinished(() => engine.close());
  return engine;
}

export const newSlab = ({ addon, options }: RdmaEngine): Slab => new Slab(addon, options, 64 * 1024 * 1024);

/** An end that connects to a port of the device. */
export function rawAttempt(device: RawDevice, port: number, options: RdmaTransportOptions = {}): RawEnd {
  const engine = engineForTest(device, options);
  const slab = newSlab(engine);
  const target = { host: device.host ?? LOOPBACK, port, timeoutMs: stretched(3000) };
  return new RawEnd(engine, slab, engine.native.connect({ ...target, ...slab.memory }));
}

/** One that has. */
export async function rawClient(
  device: RawDevice,
  port: number,
  options: RdmaTransportOptions = {},
): Promise<RawEnd> {
  const end = rawAttempt(device, port, options);
  await end.saw(EventKind.connected);
  return end;
}

/** Two ends of one connection, each on an engine of its own. */
export async function rawPair(device: RawDevice, options: RdmaTransportOptions = {}): Promise<RawPair> {
  const engine = engineForTest(device, options);
  const listener = engine.native.listen({ host: device.host ?? LOOPBACK, port: 0, backlog: 1 });
  const accepted = new Promise<RawEnd>((resolve) => {
    engine.register({
      handle: listener,
      messageArrived: () => {},
      eventArrived: (_, request) => {
        const end = new RawEnd(engine, newSlab(engine), request);
        engine.native.accept(request, end.slab.memory);
        resolve(end);
      },
    });
  });
  const client = await rawClient(device, engine.native.listenerAddress(listener).port, options);
  const server = await accepted;
  await server.saw(EventKind.accepted);
  return { client, server };
}
