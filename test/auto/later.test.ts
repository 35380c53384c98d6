// Times that began for a session before it was resumed, or was on the fast path that it requires, mean nothing afterwards.
import { expect, onTestFinished, test, vi } from 'vitest';
import { autoPair, onBase, pathIs } from '../support/auto-pair.js';
import { numbered } from '../support/messages.js';

function fakeTimes(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
}

test('a session that was resumed lives on, and has a whole window when it is lost again', async () => {
  fakeTimes();
  const { client, server, base } = await autoPair({ both: { policy: 'tcp', resumeWindowMs: 1000 } });
  const lose = async (how: () => void): Promise<void> => {
    how();
    await client.send(numbered(1));
    await Promise.all([client, server].map((each) => pathIs(each, ({ flowing }) => !flowing)));
  };
  const states = (): string[] => [client.state, server.state];
  await lose(() => base.breakOnce());
  await vi.advanceTimersByTimeAsync(20); // no pause before an attempt is longer
  await Promise.all([onBase(client), onBase(server)]);
  await vi.advanceTimersByTimeAsync(2000);
  expect(states()).toEqual(['open', 'open']);
  await lose(() => base.cut());
  await vi.advanceTimersByTimeAsync(950);
  expect(states()).toEqual(['open', 'open']);
  await vi.advanceTimersByTimeAsync(100);
  for (const { closed } of [client, server])
    expect((await closed).error).toMatchObject({ reason: 'resume-timeout' });
});

test.each(['client', 'server'] as const)(
  'a session that has the fast path, which the %s requires, keeps it',
  async (side) => {
    fakeTimes();
    const { client, server } = await autoPair({ [side]: { policy: 'require-rdma' } });
    await vi.advanceTimersByTimeAsync(60_000);
    for (const each of [client, server]) {
      expect(each.path).toEqual({ kind: 'memory', fast: true, flowing: true });
      expect(each.state).toBe('open');
    }
  },
);
