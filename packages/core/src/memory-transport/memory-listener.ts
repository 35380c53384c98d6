import type { Capabilities } from '../contract/capabilities.js';
import type { ListenerInit } from '../contract/listener.js';
import { Listener } from '../contract/listener.js';
import type { ResolvedConnectionOptions } from '../contract/options.js';
import type { Window } from './credits.js';
import type { MemoryFaults } from './faults.js';
import type { MemoryConnection } from './memory-connection.js';
import type { MemoryNetwork } from './network.js';

/** What one side brings into a connection. */
export interface Side {
  readonly options: ResolvedConnectionOptions;
  readonly faults: MemoryFaults;
  readonly window: Window;
  readonly capabilities: Capabilities;
}

export interface MemoryListenerInit extends ListenerInit {
  readonly network: MemoryNetwork;
  readonly side: Side;
  readonly opened: (connection: MemoryConnection) => void;
}

export class MemoryListener extends Listener {
  readonly side: Side;
  readonly #network: MemoryNetwork;
  readonly #opened: (connection: MemoryConnection) => void;

  constructor(init: MemoryListenerInit) {
    super(init);
    this.side = init.side;
    this.#network = init.network;
    this.#opened = init.opened;
    this.#network.add(this);
  }

  /** A peer has connected. */
  incoming(connection: MemoryConnection): void {
    this.#opened(connection);
    this._accept(connection);
  }

  protected override async _close(): Promise<void> {
    this.#network.remove(this);
  }
}
