import { expect, test } from 'vitest';

test.each(['codec', 'rpc', 'queue', 'pubsub'])('verbmq/%s is what core has', async (name) => {
  const ours = await import(`verbmq/${name}`);
  const core = await import(`@verbmq/core/${name}`);
  expect(Object.keys(core).length).toBeGreaterThan(0);
  expect(ours).toEqual(core);
});
