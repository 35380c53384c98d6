// What a process does that is started before there is anything to do: loads what it will need, which is its argument, and waits.
import { once } from 'node:events';

/** Resolves with the task that the parent sends. */
export async function nextTask() {
  const exit = () => process.exit();
  process.once('disconnect', exit);
  await import(process.argv[2]);
  const [task] = await once(process, 'message');
  process.off('disconnect', exit);
  return task;
}
