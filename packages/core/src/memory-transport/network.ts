import type { HostAddress, PathAddress } from '../contract/address.js';
import { VerbmqError } from '../contract/errors.js';
import type { MemoryListener } from './memory-listener.js';

/** The first port that is given to who asks for port 0. */
const FIRST_FREE_PORT = 49_152;

/** Where memory transports meet: those that share one can reach each other. Holds nothing of the system. */
export class MemoryNetwork {
  readonly #listeners = new Map<string, MemoryListener>();

  /** The address to listen on: the given one, with a free port where it asks for one. */
  resolve(address: HostAddress | PathAddress): HostAddress | PathAddress {
    if ('path' in address) return { path: address.path };
    let { port } = address;
    if (port === 0) {
      port = FIRST_FREE_PORT;
      while (this.#listeners.has(nameOf({ host: address.host, port }))) port++;
    }
    return { host: address.host, port };
  }

  /** @throws VerbmqError `ERR_VERBMQ_ADDRESS_IN_USE`. */
  add(listener: MemoryListener): void {
    const name = nameOf(listener.address);
    if (this.#listeners.has(name)) {
      throw new VerbmqError('ERR_VERBMQ_ADDRESS_IN_USE', `another listener of this network has ${name}`);
    }
    this.#listeners.set(name, listener);
  }

  remove(listener: MemoryListener): void {
    this.#listeners.delete(nameOf(listener.address));
  }

  find(address: HostAddress | PathAddress): MemoryListener | undefined {
    return this.#listeners.get(nameOf(address));
  }
}

export function nameOf(address: HostAddress | PathAddress): string {
  return 'path' in address ? JSON.stringify(address.path) : `${address.host} port ${address.port}`;
}
