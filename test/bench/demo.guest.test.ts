import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { renderDemo } from '../../bench/dist/demo/render.js';
import { DEMO_STEPS, DEMO_TRANSPORTS, runDemo } from '../../bench/dist/demo/rows.js';
import { Progress } from '../../bench/dist/report/progress.js';

it('the demo shows RDMA in each of its rows where there is a device', async () => {
  const progress = new Progress(new PassThrough() as unknown as NodeJS.WriteStream, DEMO_STEPS);
  const rdma = DEMO_TRANSPORTS.filter(({ title }) => title === 'RDMA');
  const results = await runDemo(progress, { warmUpMs: 800, measuredMs: 500 }, rdma);
  expect(results.map(({ title, outcome }) => [title, outcome.kind])).toEqual([
    ['RDMA, event', 'measured'],
    ['RDMA, adaptive', 'measured'],
    ['auto, on RDMA', 'measured'],
  ]);
  const table = renderDemo(results, (_format, text) => text);
  expect(table).toMatch(/^RDMA, event +\d.* µs +[\d,]+ /m);
  expect(table).toMatch(/^auto, on RDMA +\d.* µs +[\d,]+ /m);
});
