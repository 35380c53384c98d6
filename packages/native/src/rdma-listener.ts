import { Listener, VerbmqError } from '@verbmq/core';
import type { ListenerInit, ResolvedConnectionOptions } from '@verbmq/core/transport-kit';
import { EventKind, type Handle, RejectReason } from './binding.js';
import { toVerbmqError } from './native-error.js';
import { RdmaConnection } from './rdma-connection.js';
import type { Endpoint, RdmaEngine } from './rdma-engine.js';
import type { PoolShare } from './receive-pool.js';
import { Slab } from './slab.js';

/**
 * Connections that have ended hold their memory until the device lets go of them, which may be late. Peers that come and go faster than it
 * does must not fill the memory.
 */
const MOST_PENDING_CALLS = 1024;

export interface RdmaListenerInit extends ListenerInit {
  readonly engine: RdmaEngine;
  readonly handle: Handle;
  readonly options: ResolvedConnectionOptions;
  /** Each holds the memory of a connection, so they are bounded in number. */
  readonly maxHandshakes: number;
  /** Told of each connection before the application gets it. */
  readonly opened: (connection: RdmaConnection) => void;
}

/** Accepts connections over RDMA. The device of each is the one on which its request came. */
export class RdmaListener extends Listener implements Endpoint {
  readonly handle: Handle;
  readonly #init: RdmaListenerInit;
  readonly #handshakes = new Set<Handshake>();

  constructor(init: RdmaListenerInit) {
    super(init);
    this.handle = init.handle;
    this.#init = init;
    init.engine.register(this);
  }

  /** @internal */
  messageArrived(): void {}

  /** @internal */
  eventArrived(kind: number, a: number): void {
    switch (kind) {
      case EventKind.incoming:
        this.#incoming(a);
        break;
      case EventKind.refused:
        this._acceptFailed(refusedBecause(a));
        break;
      case EventKind.closed: {
        const failure = this.#init.engine.native.takeFailure(this.handle);
        if (failure !== undefined) this._logger.error({ err: toVerbmqError(failure) }, 'listening has ended');
        this.#init.engine.unregister(this);
        void this.close();
        break;
      }
    }
  }

  #incoming(request: Handle): void {
    const { engine, options } = this.#init;
    const reason = this.#overload();
    if (reason !== undefined) {
      engine.native.reject(request, RejectReason.noResources);
      this._acceptFailed(new VerbmqError('ERR_VERBMQ_OVERLOADED', `a request was refused: ${reason}`));
      return;
    }
    let slab: Slab;
    let share: PoolShare | undefined;
    try {
      share = engine.receivePools?.join(request);
      slab = new Slab(engine.addon, engine.options, options.maxMessageBytes, share);
    } catch (error) {
      if (share !== undefined) engine.receivePools?.leave(share, this);
      const refusal = toVerbmqError(error);
      const isForGood = refusal.code === 'ERR_VERBMQ_UNSUPPORTED';
      engine.native.reject(request, isForGood ? RejectReason.refused : RejectReason.noResources);
      this._acceptFailed(refusal);
      return;
    }
    const handshake = new Handshake(request, engine, slab, this.#init, (outcome) => {
      this.#handshakes.delete(handshake);
      if (outcome instanceof VerbmqError) {
        this._acceptFailed(outcome);
        return;
      }
      this.#init.opened(outcome);
      try {
        refuseOtherDevice(outcome, engine.options.device);
        this._accept(outcome);
      } catch (error) {
        this._acceptFailed(toVerbmqError(error));
      }
    });
    this.#handshakes.add(handshake);
    handshake.start();
  }

  /** Why no more requests can be taken on now. */
  #overload(): string | undefined {
    const { engine, maxHandshakes } = this.#init;
    if (this.#handshakes.size >= maxHandshakes)
      return `${maxHandshakes} handshakes are in progress (maxHandshakes)`;
    if (engine.native.pendingCalls() >= MOST_PENDING_CALLS)
      return `the device has yet to let go of ${MOST_PENDING_CALLS} connections that have ended`;
    return undefined;
  }

  protected override async _close(): Promise<void> {
    const { engine } = this.#init;
    engine.unregister(this);
    engine.closeListener(this.handle);
    for (const handshake of this.#handshakes) handshake.cancel();
  }
}

/** Requests that the addon refuses by itself. */
function refusedBecause(reason: number): VerbmqError {
  switch (reason) {
    case RejectReason.version:
      return new VerbmqError('ERR_VERBMQ_VERSION', 'a peer with another version of the protocol was refused');
    case RejectReason.noResources:
      return new VerbmqError(
        'ERR_VERBMQ_OVERLOADED',
        'a request was refused: one transport holds at most 65,536 connections and listeners',
      );
    default:
      return new VerbmqError('ERR_VERBMQ_PROTOCOL', 'a request that does not come from verbmq was refused');
  }
}

/** Ends a connection that came about over another device than the named one, and throws. */
export function refuseOtherDevice(connection: RdmaConnection, device: string | undefined): void {
  if (device === undefined || connection.device === device) return;
  const what = `the connection is over the device ${connection.device}, and only ${device} is to be used (device)`;
  connection.abort(what);
  throw new VerbmqError('ERR_VERBMQ_CONNECT_FAILED', what, { reason: 'other-device' });
}

/** A request that was answered, until the peer's first frame has come. */
class Handshake implements Endpoint {
  readonly handle: Handle;
  readonly #engine: RdmaEngine;
  readonly #slab: Slab;
  readonly #options: ResolvedConnectionOptions;
  readonly #done: (outcome: RdmaConnection | VerbmqError) => void;
  #timer: NodeJS.Timeout | undefined;
  #error: VerbmqError | undefined;

  constructor(
    handle: Handle,
    engine: RdmaEngine,
    slab: Slab,
    { options }: RdmaListenerInit,
    done: (outcome: RdmaConnection | VerbmqError) => void,
  ) {
    this.handle = handle;
    this.#engine = engine;
    this.#slab = slab;
    this.#options = options;
    this.#done = done;
  }

  start(): void {
    this.#engine.register(this);
    try {
      this.#engine.native.accept(this.handle, this.#slab.memory);
    } catch (error) {
      this.#gone();
      this.#done(toVerbmqError(error));
      return;
    }
    const { handshakeTimeoutMs } = this.#options;
    this.#timer = setTimeout(() => {
      this.#end(
        new VerbmqError(
          'ERR_VERBMQ_HANDSHAKE_TIMEOUT',
          `a peer did not finish its handshake within ${handshakeTimeoutMs} ms`,
        ),
      );
    }, handshakeTimeoutMs);
    this.#timer.unref();
  }

  cancel(): void {
    this.#end(new VerbmqError('ERR_VERBMQ_CLOSED', 'the listener was closed during a handshake'));
  }

  /** No message comes before `accepted`, which puts the connection in this object's place; so this has been given up. */
  messageArrived(slot: number): void {
    this.#release(slot);
  }

  eventArrived(kind: number, a: number): void {
    switch (kind) {
      case EventKind.accepted:
        this.#accepted();
        break;
      case EventKind.advertised:
        this.#release(a);
        break;
      case EventKind.closed:
        this.#closed(a === 1);
        break;
    }
  }

  #accepted(): void {
    clearTimeout(this.#timer);
    const description = this.#engine.native.takeDescription(this.handle);
    // The peer's first frame was found while this was being given up: what ends here never was a connection.
    if (this.#error !== undefined) return;
    const connection = new RdmaConnection({
      engine: this.#engine,
      handle: this.handle,
      slab: this.#slab,
      direction: 'in',
      options: this.#options,
      description,
    });
    this.#engine.register(connection);
    this.#done(connection);
  }

  #closed(failed: boolean): void {
    clearTimeout(this.#timer);
    this.#gone();
    const failure = failed ? this.#engine.native.takeFailure(this.handle) : undefined;
    const lost = { reason: 'lost', message: 'the peer went away during the handshake' };
    this.#done(this.#error ?? toVerbmqError(failure ?? lost));
  }

  /** What came behind the first frame of a handshake that was given up: where slots are shared, others need this one. */
  #release(slot: number): void {
    const { share } = this.#slab;
    share?.hold(slot);
    share?.release(slot);
  }

  #gone(): void {
    this.#engine.unregister(this);
    const { share } = this.#slab;
    if (share !== undefined) this.#engine.receivePools?.leave(share, this);
  }

  #end(error: VerbmqError): void {
    clearTimeout(this.#timer);
    this.#error = error;
    this.#engine.native.destroy(this.handle);
  }
}
