// As many connections over a real device as make sense share their receive slots, and all are busy at once.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { rdmaAddresses, rdmaSetUp } from '../support/transports/rdma.js';
import { until } from '../support/until.js';
import { crowdedTraffic } from './crowd.js';
import { countVerbsObjects } from './verbs-objects.js';

const DEVICES = '/sys/class/infiniband';
const CONNECTIONS = Number(process.env.VERBMQ_SHARED_CONNECTIONS ?? 200);
const size = { connections: CONNECTIONS, spareSlots: CONNECTIONS / 2, up: 48, down: 8 };
const timeout = 240_000 + 1000 * CONNECTIONS;

test(`${CONNECTIONS} connections at once want more shared slots than there are`, { timeout }, async () => {
  const before = countVerbsObjects();
  const notReady = answersNotReady();
  let most = before;
  await crowdedTraffic(rdmaSetUp(rdmaAddresses()), size, () => {
    most = countVerbsObjects();
    expect(most.srq).toBe(before.srq + 1);
  });
  console.log(`${CONNECTIONS} connections`, most, process.memoryUsage());
  // Soft-iWARP counts none: there a receiver that is not ready ends its connection.
  if (process.env.VERBMQ_GUEST_DRIVER === 'rxe') expect(notReady).not.toEqual({});
  expect(answersNotReady()).toEqual(notReady);
  await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
});

/** How often the devices of this machine have answered, or heard, that a receiver is not ready, where they count it. */
function answersNotReady(): Record<string, string> {
  const counters = readdirSync(DEVICES)
    .map((device) => `${DEVICES}/${device}/ports/1/hw_counters`)
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`))
    .filter((file) => file.includes('rnr'));
  return Object.fromEntries(counters.map((file) => [file, readFileSync(file, 'utf8').trim()]));
}
