import { expect } from 'vitest';
import type { Script } from './script.mjs';
import type { Tally } from './sides.mjs';

/** Every connection has ended as the script says, at both sides: those before number `next`. */
export function expectEnds(script: Script, next: number, client: Tally, server: Tally): void {
  const lives = Array.from({ length: next }, (_, number) => script.life(number));
  const abortedBy = (side: string): number =>
    lives.filter(({ abortAt, endedBy }) => abortAt !== undefined && endedBy === side).length;
  const closed = lives.length - abortedBy('client') - abortedBy('server');
  for (const [tally, own, peers] of [
    [client, abortedBy('client'), abortedBy('server')],
    [server, abortedBy('server'), abortedBy('client')],
  ] as const) {
    const {
      closed: inOrder = 0,
      ERR_VERBMQ_ABORTED = 0,
      ERR_VERBMQ_PEER_ABORTED = 0,
      ...others
    } = tally.ended;
    expect({ inOrder, aborted: ERR_VERBMQ_ABORTED, peerAborted: ERR_VERBMQ_PEER_ABORTED, others }).toEqual({
      inOrder: closed,
      aborted: own,
      peerAborted: peers,
      others: {},
    });
  }
}
