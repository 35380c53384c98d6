import { expect, test } from 'vitest';
import { onFast, pathIs } from '../support/auto-pair.js';
import { autoRdmaPair } from '../support/auto-rdma-pair.js';
import { rdmaAddresses } from '../support/transports/rdma.js';
import { expectNothingLost } from './moves.js';
import { until } from './support.js';

const addresses = rdmaAddresses();

test('calls, jobs and events go on when RDMA breaks, when TCP does, and when both do', async () => {
  const { client, server, breakFast, base } = await autoRdmaPair(addresses);
  const kinds: string[] = [];
  client.onPath(({ kind, flowing }) => flowing && kinds.at(-1) !== kind && kinds.push(kind));
  const { connections } = base;
  await expectNothingLost(
    {
      client,
      server,
      move: async (round) => {
        await onFast(client);
        const before = base.connections;
        const what = ['rdma', 'tcp', 'both'][round % 3];
        const left = what === 'tcp' ? undefined : pathIs(client, ({ fast }) => !fast);
        if (what !== 'tcp') breakFast();
        if (what !== 'rdma') {
          base.breakOnce();
          await until(() => base.connections > before);
        }
        await left;
        await onFast(client);
      },
    },
    6,
  );
  expect(base.connections - connections).toBeGreaterThanOrEqual(4);
  expect(kinds.filter((kind) => kind === 'tcp').length).toBeGreaterThanOrEqual(4);
  expect(kinds.filter((kind) => kind === 'rdma').length).toBeGreaterThanOrEqual(5);
});
