import { Socket } from 'node:net';
import { expect, it, vi } from 'vitest';
import { pattern } from '../../../test/support/messages.js';
import { rawPair } from './raw-peer.js';

it('what is sent in one turn of the event loop leaves in one write, short messages and long ones', async () => {
  const { peer, connection } = await rawPair({}, { receiveWindowBytes: 2 ** 30 });
  const prototype = Socket.prototype as unknown as Record<'_write' | '_writev', () => void>;
  const spies = (['_write', '_writev'] as const).map((name) => vi.spyOn(prototype, name));
  const writes = (): number =>
    spies.flatMap(({ mock }) => mock.contexts as unknown[]).filter((socket) => socket !== peer.socket).length;
  for (let turn = 1; turn <= 3; turn++) {
    for (let n = 0; n < 100; n++) expect(connection.trySend(pattern(200, n))).toBe(true);
    const long = [connection.send(pattern(100_000)), connection.send(pattern(200_000))];
    await connection.send(pattern(10));
    expect(writes()).toBe(turn - 1);
    await Promise.all([...long, connection.drain()]);
    expect(writes()).toBe(turn);
  }
  for (const spy of spies) spy.mockRestore();
});
