import { onTestFinished } from 'vitest';
import type { SimulatedDevice } from '../../../test/support/simulated-device.js';
import { until } from '../../../test/support/until.js';
import { type ConnectionDescription, EventKind, type NativeFailure } from '../src/binding.js';
import { loadAddon } from '../src/load-addon.js';
import { type RdmaTransportOptions, resolveRdmaOptions } from '../src/options.js';
import { type Endpoint, RdmaEngine } from '../src/rdma-engine.js';
import { Slab } from '../src/slab.js';

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
  description: ConnectionDescription | undefined;
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
    if (kind === EventKind.connected || kind === EventKind.accepted) {
      this.description = this.engine.native.takeDescription(this.handle);
    }
    if (kind === EventKind.closed) this.failure = this.engine.native.takeFailure(this.handle);
  }

  /** The events of one kind so far, once there are `count`. */
  async saw(kind: number, count = 1): Promise<readonly RawEvent[]> {
    await until(() => this.events.filter(([each]) => each === kind).length >= count);
    return this.events.filter(([each]) => each === kind);
  }
}

export interface RawPair {
  readonly client: RawEnd;
  readonly server: RawEnd;
}

/** Two ends of one connection on the simulated device, each on an engine of its own. */
export async function rawPair(device: SimulatedDevice, options: RdmaTransportOptions = {}): Promise<RawPair> {
  const { addon } = loadAddon();
  if (addon === undefined) throw new Error('the addon is not built');
  const resolved = resolveRdmaOptions({ ...options, libraries: device.libraries });
  const engineForTest = (): RdmaEngine => {
    const engine = new RdmaEngine(addon, resolved, () => {});
    onTestFinished(() => engine.close());
    return engine;
  };
  const newSlab = (): Slab => new Slab(addon, resolved, 64 * 1024 * 1024);

  const listening = engineForTest();
  const listener = listening.native.listen({ host: '127.0.0.1', port: 0, backlog: 1 });
  const incoming = new Promise<number>((resolve) => {
    listening.register({
      handle: listener,
      messageArrived: () => {},
      eventArrived: (_, request) => resolve(request),
    });
  });
  const accepted = incoming.then((request) => {
    const end = new RawEnd(listening, newSlab(), request);
    listening.native.accept(request, end.slab.memory);
    return end;
  });
  const connecting = engineForTest();
  const slab = newSlab();
  const { port } = listening.native.listenerAddress(listener);
  const client = new RawEnd(
    connecting,
    slab,
    connecting.native.connect({ host: '127.0.0.1', port, timeoutMs: 3000, ...slab.memory }),
  );
  const server = await accepted;
  await Promise.all([client.saw(EventKind.connected), server.saw(EventKind.accepted)]);
  return { client, server };
}
