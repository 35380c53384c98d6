import { expect, test } from 'vitest';
import { FastServer } from '../../src/auto/fast-server.js';
import { type ListenRequest, Transport } from '../../src/contract/transport.js';
import {
  type Connection,
  type HostAddress,
  Listener,
  type ListenOptions,
  type ProbeResult,
  silentLogger,
} from '../../src/index.js';

/** Something that happens when the test says so. */
class Gate {
  readonly reached: Promise<void>;
  #reach!: () => void;
  readonly #opened: Promise<void>;
  open!: () => void;

  constructor() {
    this.reached = new Promise((resolve) => {
      this.#reach = resolve;
    });
    this.#opened = new Promise((resolve) => {
      this.open = resolve;
    });
  }

  pass = (): Promise<void> => {
    this.#reach();
    return this.#opened;
  };
}

type Step = (host: string) => Promise<void> | undefined;

/** A transport that listens, and takes as long as the test wants for each step. It notes what is open, and what was given back. */
class SlowTransport extends Transport {
  readonly kind = 'slow';
  readonly schemes = [];
  readonly open: Listener[] = [];
  readonly events: string[] = [];
  readonly #steps: { readonly probe?: Step; readonly listen?: Step; readonly close?: Step };

  constructor(steps: { probe?: Step; listen?: Step; close?: Step }) {
    super();
    this.#steps = steps;
  }

  async probe(): Promise<ProbeResult> {
    await this.#steps.probe?.('');
    return { available: true, details: {} };
  }

  protected override async _listen({ address }: ListenRequest<ListenOptions>): Promise<Listener> {
    const { host } = address as HostAddress;
    const transport = this;
    await this.#steps.listen?.(host);
    class SlowListener extends Listener {
      protected override async _close(): Promise<void> {
        await transport.#steps.close?.(host);
        transport.events.push(`${host} was given back`);
        transport.open.splice(transport.open.indexOf(this), 1);
      }
    }
    const listener = new SlowListener({
      kind: 'slow',
      address: { host, port: 7 },
      url: '',
      logger: silentLogger,
    });
    this.open.push(listener);
    return listener;
  }

  protected override _connect(): Promise<Connection> {
    throw new Error('nobody connects');
  }
}

function serverOn(fast: SlowTransport): FastServer {
  return new FastServer({
    fast,
    addresses: ['first', 'second', 'third'].map((host) => ({ host, port: 7 })),
    options: { maxHandshakes: 1 },
    timeoutMs: 60_000,
    retryMs: 1,
    refused: () => {},
  });
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('closing while it listens ends when what was opened meanwhile is given back', async () => {
  const gate = new Gate();
  const fast = new SlowTransport({ listen: (host) => (host === 'second' ? gate.pass() : undefined) });
  const server = serverOn(fast);
  const listening = server.listen();
  await gate.reached;
  const closing = server.close().then(() => fast.events.push('closed'));
  const refused = expect(listening).rejects.toMatchObject({
    code: 'ERR_VERBMQ_CLOSED',
    reason: 'listener-closed',
  });
  await turn();
  gate.open();
  await closing;
  await refused;
  expect(fast.events).toEqual(['first was given back', 'second was given back', 'closed']);
  expect(fast.open).toEqual([]);
});

test('closing while it finds out whether it can listen does not wait for that, and nothing is opened after it', async () => {
  const gate = new Gate();
  const opened: string[] = [];
  const fast = new SlowTransport({
    probe: gate.pass,
    listen: async (host) => void opened.push(host),
  });
  const server = serverOn(fast);
  const listening = server.listen();
  await gate.reached;
  await server.close();
  gate.open();
  await expect(listening).rejects.toMatchObject({ code: 'ERR_VERBMQ_CLOSED', reason: 'listener-closed' });
  expect(opened).toEqual([]);
});

test('closing waits for what is being given back since one of its listeners was lost', async () => {
  const gate = new Gate();
  const fast = new SlowTransport({ close: (host) => (host === 'third' ? gate.pass() : undefined) });
  const server = serverOn(fast);
  await server.listen();
  await fast.open[0]?.close(); // as one whose device has gone
  await gate.reached;
  const closing = server.close().then(() => fast.events.push('closed'));
  await turn();
  gate.open();
  await closing;
  expect(fast.events).toEqual([
    'first was given back',
    'second was given back',
    'third was given back',
    'closed',
  ]);
});
