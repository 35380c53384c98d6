import { expect, test } from 'vitest';
import { startExample, startService } from '../support/example.js';

test('the example counts while the connection finds its path, and says which and why', async () => {
  const { service, url } = await startService('moving-service', 'verbmq://127.0.0.1:0');
  expect(url).toMatch(/^verbmq:/);
  const client = startExample('moving-client', url);
  const lines = await client.rest();
  expect(lines[0]).toMatch(/^on (tcp: .|rdma)/);
  expect(lines).toContain('counted without a gap'); // the path may be asked for again behind it
  expect(await client.exit).toEqual([0, null]);
  service.terminate();
  expect(await service.exit).toEqual([0, null]);
});
