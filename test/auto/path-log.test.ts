import type { PathInfo } from '@verbmq/core/auto';
import { expect, onTestFinished, test, vi } from 'vitest';
import { worldWithout } from '../support/absent-transport.js';
import { asAuto, autoPair, autoWorld, onBase, onFast, pathIs, QUICK } from '../support/auto-pair.js';
import { numbered } from '../support/messages.js';
import { abortAfterTest, nextConnection } from '../support/pair.js';
import { Kind, rawPair } from '../support/raw-auto-peer.js';
import { type LogLine, recordedLog } from '../support/recorded-log.js';
import { until } from '../support/until.js';

/** The paths that were logged as information. */
const pathsIn = (lines: readonly LogLine[]): unknown[] =>
  lines.filter(({ level, path }) => level === 'info' && path !== undefined).map(({ path }) => path);

test.each(['client', 'server'] as const)(
  'a %s without its device is told of once, however often it is asked for, and its return',
  async (absent) => {
    const logs = { client: recordedLog(), server: recordedLog() };
    const { late, server, client } = worldWithout(absent, QUICK);
    const listener = await server.listen({ host: 'here', port: 1 }, { logger: logs.server.logger });
    const accepted = nextConnection(listener);
    const options = { logger: logs.client.logger };
    const connection = asAuto(abortAfterTest(await client.connect(listener.url, options)));
    const peer = asAuto(abortAfterTest(await accepted));
    const before = late.probes;
    await until(() => late.probes >= before + 6);
    const fast = { kind: 'memory', fast: true, flowing: true };
    for (const { lines } of Object.values(logs)) expect(pathsIn(lines).length).toBeLessThanOrEqual(1);
    if (absent === 'server')
      expect(pathsIn(logs.client.lines)).toMatchObject([
        { reason: 'peer-declined', peerReason: 'no-device' },
      ]);
    late.present = true;
    await Promise.all([onFast(connection), onFast(peer)]);
    for (const { lines } of Object.values(logs)) expect(pathsIn(lines).at(-1)).toEqual(fast);
  },
);

test('a path that breaks is told of, and once why there is no other one, until there is', async () => {
  const { lines, logger } = recordedLog();
  const { client, fast } = await autoPair({ client: { logger } });
  await onFast(client);
  const asked = (): number => fast.attempts.length;
  fast.cut();
  await client.send(numbered(1));
  await onBase(client);
  const before = asked();
  await until(() => asked() >= before + 6);
  fast.heal();
  await onFast(client);
  const said = pathsIn(lines).map((path) => (path as PathInfo).reason ?? 'fast');
  expect(said.filter((reason) => reason === 'unreachable')).toEqual(['unreachable']);
  expect(said.at(0)).toBe('fast');
  expect(said).toContain('broken');
  expect(said.at(-1)).toBe('fast');
});

test('that a path broke is told before another one is asked for, however slow the peer is to leave it', async () => {
  const { client, base, fast } = await autoPair();
  await onFast(client);
  const reasons: unknown[] = [];
  client.onPath((path) => {
    if (!path.fast) reasons.push(path.reason);
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  let letThrough = (): void => {};
  base.verdict = new Promise((resolve) => {
    letThrough = resolve;
  });
  fast.breakOnce();
  await client.send(numbered(1));
  await pathIs(client, ({ flowing }) => !flowing);
  vi.advanceTimersByTime(1_000); // many pauses of at most 20 ms, after which it asks for another one
  base.heal();
  letThrough();
  await onBase(client);
  expect(reasons).toEqual(['broken']);
  vi.advanceTimersByTime(1_000);
  await onFast(client);
});

test('a path that is never proved is told of once on each side, and no end of its connections is a warning', async () => {
  const logs = { client: recordedLog(), server: recordedLog() };
  const world = autoWorld({
    client: { logger: logs.client.logger },
    server: { logger: logs.server.logger },
  });
  world.fast.verdictOf = ({ kind }) => (kind === 'request' ? 'drop' : 'deliver'); // one-sided reads are not answered
  const listener = await world.serverTransport.listen({ host: 'here', port: 1 });
  listener.onConnection((connection) => void abortAfterTest(connection));
  const client = asAuto(abortAfterTest(await world.clientTransport.connect(listener.url)));
  let failures = 0;
  client.onPath(({ reason }) => {
    if (reason === 'probe-failed') failures++;
  });
  await until(() => failures >= 4);
  for (const { lines } of Object.values(logs)) {
    expect(pathsIn(lines).length).toBe(1);
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([]);
  }
});

test('a peer whose reasons change without end fills no log, and the path says the last one', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { lines, logger } = recordedLog();
  const countOf = (wanted: string): number =>
    lines.filter(({ level, message }) => level === wanted && message?.includes('path')).length;
  const counts = () => ({ info: countOf('info'), debug: countOf('debug') });
  const { raw, server: session } = await rawPair({ server: { logger } });
  let reasons = 0;
  const flap = async (times: number): Promise<void> => {
    for (let n = 0; n < times; n++)
      raw.sendJson(Kind.FAST_FAILED, { number: 0, reason: `reason-${++reasons}` });
    await pathIs(session, ({ peerReason }) => peerReason === `reason-${reasons}`);
  };
  await flap(100);
  expect(counts()).toEqual({ info: 8, debug: 92 });
  vi.advanceTimersByTime(9_999);
  await flap(100);
  expect(counts()).toEqual({ info: 8, debug: 192 });
  vi.advanceTimersByTime(10_001);
  await flap(100);
  expect(counts()).toEqual({ info: 10, debug: 290 });
});
