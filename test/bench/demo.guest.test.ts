import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { renderDemo } from '../../bench/dist/demo/render.js';
import { DEMO_STEPS, DEMO_TRANSPORTS, runDemo } from '../../bench/dist/demo/rows.js';
import { Progress } from '../../bench/dist/report/progress.js';

/** The third row differs from the first in how it polls, and in the guest a row takes half a minute. */
const ROWS = ['RDMA, adaptive', 'auto, on RDMA'];

it('the demo shows RDMA, by itself and under auto, where there is a device', async () => {
  const progress = new Progress(new PassThrough() as unknown as NodeJS.WriteStream, DEMO_STEPS);
  const rdma = DEMO_TRANSPORTS.filter(({ title }) => title === 'RDMA').map((transport) => ({
    ...transport,
    rows: transport.rows.filter(({ title }) => ROWS.includes(title)),
  }));
  const results = await runDemo(progress, { warmUpMs: 800, measuredMs: 500 }, rdma);
  expect(results.map(({ title, outcome }) => [title, outcome.kind])).toEqual(
    ROWS.map((title) => [title, 'measured']),
  );
  const table = renderDemo(results, (_format, text) => text);
  expect(table).toMatch(/^RDMA, adaptive +\d.* µs +[\d,]+ /m);
  expect(table).toMatch(/^auto, on RDMA +\d.* µs +[\d,]+ /m);
});
