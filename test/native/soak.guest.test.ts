// Traffic of every kind at once between two processes. Few messages by default; for a soak, and to repeat one:
//
//   VERBMQ_SOAK_MESSAGES=200000 VERBMQ_SOAK_SEED=1 npm run guest -- --memory 8192 --timeout 7200 -- \
//     npx vitest run --project guest native/soak
import { RdmaTransport } from '@verbmq/native';
import { describe, expect, onTestFinished, test } from 'vitest';
import { randomFrom } from '../support/random.mjs';
import { until } from '../support/until.js';
import { expectEnds } from './soak/expectations.js';
import { growth, type Memory, settledMemory } from './soak/memory.mjs';
import { Script } from './soak/script.mjs';
import { soakOf } from './soak/settings.js';
import { CONNECTIONS, PATIENT, SoakServer } from './soak/sides.mjs';
import { SoakPeer } from './soak/soak-peer.js';
import { countVerbsObjects } from './verbs-objects.js';

const host = process.env.VERBMQ_RDMA_ADDRESS as string;
const MIB = 1024 * 1024;
const { messages, script: options, timeout } = soakOf(200, 4 * MIB);
/** Memory is looked at between them, when nothing is open. */
const PHASES = 4;
/** Messages that come from a peer before it is killed, at most. */
const LONGEST_LIFE = Math.min(2000, messages / 4);

async function listen() {
  const transport = new RdmaTransport(PATIENT);
  onTestFinished(() => transport.close());
  const listener = await transport.listen({ host, port: 0 });
  const script = new Script(options);
  return { transport, url: listener.url, script, server: new SoakServer(listener, script) };
}

/** What was allocated once, and what the compiler makes of code that runs for long, is there after the first look. */
function expectNoGrowth(looks: readonly Memory[]): void {
  const grown = growth(looks[0]!, looks.at(-1)!);
  expect(grown.arrayBuffers).toBeLessThan(MIB);
  expect(grown.heapUsed).toBeLessThan(8 * MIB);
  expect(grown.rss).toBeLessThan(128 * MIB);
}

describe(`a soak of ${messages} messages over ${CONNECTIONS} connections (seed ${options.seed})`, () => {
  test('every byte and every order is right; neither memory nor verbs objects grow', {
    timeout,
  }, async () => {
    const before = JSON.stringify(countVerbsObjects());
    const { transport, url, script, server } = await listen();
    const peer = new SoakPeer(options);
    const idle: string[] = [];
    const looks: { here: Memory; peer: Memory }[] = [];
    let first = 0;
    for (let phase = 1; phase <= PHASES; phase++) {
      const task = { url, first, messages: messages / PHASES };
      const { next, tally, memory } = await server.unlessBroken(peer.finish(task));
      await server.unlessBroken(server.allEnded());
      expectEnds(script, next, tally, server.tally);
      expect(transport.stats()).toMatchObject({ connections: 0, registeredBytes: 0 });
      first = next;
      idle.push(JSON.stringify(countVerbsObjects()));
      looks.push({ here: await settledMemory(), peer: memory });
      const bytes = tally.bytes + server.tally.bytes;
      console.log(
        `phase ${phase}: ${tally.received + server.tally.received} messages, ${Math.round(bytes / MIB)} MiB, ${next} connections`,
        ...looks.slice(-1),
      );
    }
    for (const each of idle) expect(each).toBe(idle[0]);
    expectNoGrowth(looks.map(({ here }) => here));
    expectNoGrowth(looks.map((look) => look.peer));
    peer.kill();
    await peer.exited;
    await transport.close();
    await until(() => JSON.stringify(countVerbsObjects()) === before);
  });

  test('the same against a peer that is killed at random moments', { timeout }, async () => {
    const before = JSON.stringify(countVerbsObjects());
    const { transport, url, server } = await listen();
    const random = randomFrom(options.seed, 7);
    const looks: Memory[] = [];
    let kills = 0;
    // The next one starts while its predecessor works: that takes seconds in the guest.
    let next = new SoakPeer(options);
    while (server.received < messages / 2) {
      const peer = next;
      next = new SoakPeer(options);
      const last = server.received + Math.ceil(random() * LONGEST_LIFE);
      server.onMessage = () => {
        if (server.received === last) peer.kill();
      };
      peer.start({ url, first: 1_000_000 * ++kills, messages: Number.MAX_SAFE_INTEGER });
      expect(await server.unlessBroken(peer.exited)).toBe('SIGKILL');
      // A request that the peer had made when it died holds memory until its handshake has ended as well.
      await server.unlessBroken(until(() => transport.stats().registeredBytes === 0));
      await server.unlessBroken(server.allEnded());
      expect(transport.stats()).toMatchObject({ connections: 0, registeredBytes: 0 });
      looks.push(await settledMemory());
    }
    console.log(`${kills} peers were killed`, server.tally, growth(looks[0]!, looks.at(-1)!));
    const { closed, ERR_VERBMQ_ABORTED, ERR_VERBMQ_PEER_ABORTED, ERR_VERBMQ_CONNECTION_LOST, ...others } =
      server.tally.ended;
    expect(ERR_VERBMQ_CONNECTION_LOST).toBeGreaterThan(kills);
    expect(others).toEqual({});
    expectNoGrowth(looks);
    next.kill();
    await next.exited;
    await transport.close();
    await until(() => JSON.stringify(countVerbsObjects()) === before);
  });
});
