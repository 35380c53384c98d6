import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach } from 'vitest';

/**
 * Is run with every test file. A test that fails leaves what it has started and not awaited, and that fails too when the test's
 * connections are ended after it. Nobody can look at it any more, and the failure has been told: it is not one more error of the run. While
 * a test runs, and after one that passed, a rejection that nobody looks at is an error as ever.
 */
const nobodysRejection = (): void => {};

/** What ends with the connections has ended so many turns of the event loop after them. */
const LAST_TURNS = 5;

beforeEach(({ onTestFinished }) => {
  // The first that is asked for is done last: when all that the test has opened is closed.
  onTestFinished(async () => {
    if (!process.listeners('unhandledRejection').includes(nobodysRejection)) return;
    for (let n = 0; n < LAST_TURNS; n++) await turn();
    process.off('unhandledRejection', nobodysRejection);
  });
});

// Vitest leaves to the listeners that there are besides its own what they listen for.
afterEach(({ task }) => {
  if (task.result?.state === 'fail') process.on('unhandledRejection', nobodysRejection);
});
