import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import type { BenchReport } from '../../bench/dist/report/results.js';
import { EchoPair } from '../../bench/dist/run/echo-pair.js';

const BENCH = fileURLToPath(new URL('../../bench/dist/bench.js', import.meta.url));

it('the benchmark writes results and ratios, and lists what is not there', () => {
  const directory = mkdtempSync(join(tmpdir(), 'verbmq-bench-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'bench.json');
  const args = ['--quick', '--rounds', '1', '--seconds', '0.05', '--only', 'net,tcp,free', '--json', file];
  const { status, stdout, stderr } = spawnSync(process.execPath, [BENCH, ...args], { encoding: 'utf8' });
  expect(stderr).toContain('round 1 of 1: rtt-64B, free');
  expect(status).toBe(0);
  expect(stdout).toContain('tcp_rtt_vs_net: absent');

  const report = JSON.parse(readFileSync(file, 'utf8')) as BenchReport;
  expect(report.failures).toEqual([]);
  const measured = report.results.map(
    ({ scenario, contestant, metric }) => `${scenario} ${contestant} ${metric}`,
  );
  for (const contestant of ['net', 'tcp']) {
    expect(measured).toContain(`rtt-64B ${contestant} p50Micros`);
    expect(measured).toContain(`rate-64B ${contestant} messagesPerSecond`);
    expect(measured).toContain(`large-1MiB ${contestant} megabytesPerSecond`);
  }
  // The ratios are of pinned processes, and here they were not: nothing is made up.
  expect(report.ratios).toEqual([]);
  expect(report.absentRatios.map(({ name }) => name)).toContain('tcp_rate_vs_net_gathered');
}, 60_000);

it('a mistake in the command line ends the benchmark with status 2', () => {
  const { status, stderr } = spawnSync(process.execPath, [BENCH, '--only', 'udp'], { encoding: 'utf8' });
  expect(stderr).toContain('there is no udp');
  expect(status).toBe(2);
});

it('many connections carry the load together, and their memory is told', async () => {
  const pair = await EchoPair.start('tcp-1000');
  expect(pair.connectionKib).toBeGreaterThan(1);
  expect(pair.connectionKib).toBeLessThan(64); // the goal of tcp_connection_kib
  const { messages } = await pair.load({ bytes: 64, inFlight: 2, durationMs: 10 });
  expect(messages).toBeGreaterThanOrEqual(2000);
  await pair.stop();
});

it.each(['push-tcp', 'read-tcp'] as const)(
  '%s carries a load that is no echo, again and again',
  async (name) => {
    const pair = await EchoPair.start(name);
    onTestFinished(() => pair.stop());
    const load = { bytes: 65_536, inFlight: 4, durationMs: 10 };
    for (let i = 0; i < 2; i++) expect((await pair.load(load)).messages).toBeGreaterThan(0);
  },
);

it('a load that cannot be produced fails, and its processes end', async () => {
  const pair = await EchoPair.start('tcp');
  // The transport refuses the message, for it is longer than its limit.
  const tooLong = { bytes: 2 ** 26 + 1, inFlight: 1, durationMs: 10 };
  await expect(pair.load(tooLong)).rejects.toThrow('ERR_VERBMQ_MESSAGE_TOO_LARGE');
  await pair.stop();
});
