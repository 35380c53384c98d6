import { expect, onTestFinished, test, vi } from 'vitest';
import { pathIs } from '../support/auto-pair.js';
import { Kind, rawPair } from '../support/raw-auto-peer.js';
import { recordedLog } from '../support/recorded-log.js';

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
