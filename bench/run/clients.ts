import type { Client, EchoContestant } from '../contestants/contestant.js';
import { Load } from './load.js';
import { cpuSince, type LoadResult, type LoadSpec } from './load-result.js';

/** Connections of one contestant in this process, each with a load of its own. */
export class Clients {
  readonly #connected: { readonly client: Client; readonly load: Load }[] = [];

  async connect(contestant: EchoContestant, address: string, connections: number): Promise<void> {
    for (let i = 0; i < connections; i++) {
      const load = new Load();
      this.#connected.push({ client: await contestant.connect(address, load.handlers), load });
    }
  }

  /** Produces the load on every connection at once. */
  async load(spec: LoadSpec): Promise<LoadResult> {
    const cpu = process.cpuUsage();
    const results = await Promise.all(this.#connected.map(({ client, load }) => load.run(client, spec)));
    const [first] = results;
    if (first === undefined) throw new Error('load before connect');
    if (results.length === 1) return first;
    return {
      messages: results.reduce((sum, { messages }) => sum + messages, 0),
      elapsedMs: Math.max(...results.map(({ elapsedMs }) => elapsedMs)),
      cpuMicros: cpuSince(cpu),
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#connected.map(({ client }) => client.close()));
  }
}
