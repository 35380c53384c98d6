import type { Connection } from './connection.js';
import type { CloseInfo } from './lifecycle.js';
import { Line } from './line.js';

/** Connections that may wait for the application before further ones are refused. */
const MAX_WAITING_CONNECTIONS = 1024;

/**
 * Connections that the application has not taken yet, in the order in which they came. Peers that come and go do not fill the line: who
 * ends leaves it, unless there are messages of his to read, and then gives way to those that come when the line is full.
 */
export class WaitingConnections {
  readonly #line = new Line<Connection>();
  /** Those in it that have ended, and whose messages the application may still read. */
  readonly #ended = new Line<Connection>();
  readonly #left: (connection: Connection, info: CloseInfo) => void;

  /** @param left told of each connection that ends and leaves the line, with nothing to read */
  constructor(left: (connection: Connection, info: CloseInfo) => void) {
    this.#left = left;
  }

  get isFull(): boolean {
    return this.#line.length >= MAX_WAITING_CONNECTIONS;
  }

  add(connection: Connection): void {
    this.#line.add(connection);
    void connection.ending.then((info) => this.#hasEnded(connection, info));
  }

  /** Who has waited longest. */
  shift(): Connection | undefined {
    const connection = this.#line.shift();
    if (connection !== undefined) this.#ended.delete(connection);
    return connection;
  }

  /** Takes one after the other, until nobody waits. */
  *takeEach(): Generator<Connection, void> {
    for (let next = this.shift(); next !== undefined; next = this.shift()) yield next;
  }

  /** Of those that have ended, who has waited longest since. */
  shiftEnded(): Connection | undefined {
    const connection = this.#ended.shift();
    if (connection !== undefined) this.#line.delete(connection);
    return connection;
  }

  #hasEnded(connection: Connection, info: CloseInfo): void {
    if (connection.stats().messagesQueued === 0) {
      if (this.#line.delete(connection)) this.#left(connection, info);
    } else if (this.#line.has(connection)) this.#ended.add(connection);
  }
}
