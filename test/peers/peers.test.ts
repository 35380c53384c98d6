import { expect, it } from 'vitest';
import { PEER_NAMES, unavailablePeers } from '../../bench/dist/peers.js';
import { EchoPair } from '../../bench/dist/run/echo-pair.js';

const missing = unavailablePeers();

// Every answer of a load is checked against what was sent: see test/bench/load.test.ts.
it.for(PEER_NAMES)('%s answers, from small messages to large ones, and ends', async (name, context) => {
  const why = missing.get(name);
  if (why !== undefined) context.skip(`${why.reason}; ${why.remedy}`);
  const pair = await EchoPair.start(name);
  const loads = [
    { bytes: 64, inFlight: 1, durationMs: 50 },
    { bytes: 4096, inFlight: 64, durationMs: 50 },
    { bytes: 2 ** 20, inFlight: 4, durationMs: 50 },
  ];
  for (const spec of loads) {
    const { messages, cpuMicros, pairCpuMicros } = await pair.load(spec);
    expect(messages).toBeGreaterThanOrEqual(spec.inFlight);
    expect(pairCpuMicros).toBeGreaterThan(cpuMicros);
  }
  await pair.stop();
});
