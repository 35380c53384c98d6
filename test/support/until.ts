import { onTestFinished } from 'vitest';

/** Resolves when `condition` holds; it is looked at in every turn of the event loop, until the test is over. */
export async function until(condition: () => boolean): Promise<void> {
  let over = false;
  onTestFinished(() => {
    over = true;
  });
  while (!condition()) {
    if (over) throw new Error('the test was over before this came true');
    await new Promise((resolve) => setImmediate(resolve));
  }
}
