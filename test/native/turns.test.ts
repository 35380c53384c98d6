// How much is done in one turn of the event loop while there is always more to do: so much that timers and sockets have their
// turn. Judged by counting; test/native/timer-lateness.mjs measures the times.
import type { Polling } from '@verbmq/native';
import { expect, test } from 'vitest';
import { nextConnection } from '../support/pair.js';
import { onSimulatedDevice, resetForTest } from '../support/simulated-device.js';
import { expectNothingLeft, simulatedPair } from '../support/simulated-pair.js';
import { until } from '../support/until.js';

/** Completions that are taken from a queue at a time; a turn whose time is over ends with them. */
const BATCH = 64;
/** How long a turn may work before that, in milliseconds. */
const TURN_MS = 0.5;
const CONNECTIONS = 5;
/** As many as there are receive slots. */
const EACH = 128;

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** Handles a message for longer than a turn may last. */
function outlastTurn(): void {
  const start = performance.now();
  while (performance.now() - start < TURN_MS * 1.5);
}

await onSimulatedDevice('rxe', (device) => {
  test.each<Polling>(['event', 'adaptive', 'busy'])(
    'when its time is over a turn ends with the batch (%s)',
    async (polling) => {
      resetForTest(device, 'rxe');
      const pair = await simulatedPair(device, { polling, peerTimeoutMs: 10_000 });
      const clients = [pair.client];
      const servers = [pair.server];
      while (clients.length < CONNECTIONS) {
        const accepted = nextConnection(pair.listener);
        clients.push(await pair.clientTransport.connect(pair.listener.url));
        servers.push(await accepted);
      }
      let handled = 0;
      for (const server of servers) {
        server.onMessage(() => {
          handled++;
          outlastTurn();
        });
      }
      // All of them lie in the queue before the first is seen.
      device.hold('receive-completions');
      await Promise.all(clients.flatMap((client) => upTo(EACH).map(() => client.send(new Uint8Array(64)))));
      const total = CONNECTIONS * EACH;
      await until(() => device.held('receive-completions') >= total);

      const perTurn: number[] = [];
      let before = handled;
      device.release('receive-completions');
      await until(() => {
        perTurn.push(handled - before);
        before = handled;
        return handled === total;
      });
      // One in the turn's time for polling, and one where it was also woken in that turn.
      expect(Math.max(...perTurn)).toBeLessThanOrEqual(2 * BATCH);
      await expectNothingLeft(device, pair);
    },
  );
});
