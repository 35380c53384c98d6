import { MessageChannel } from 'node:worker_threads';

/** A closed port: by the HTML standard, what is transferred to it is detached from here all the same, and is lost. */
const { port1: nowhere } = new MessageChannel();
nowhere.close();

/**
 * Gives back memory of which nobody has a view any more.
 *
 * The garbage collector would do it, but at a price. V8 counts the memory of array buffers that it has not collected yet:
 * every 32 MiB it makes a minor collection, and takes that memory for a growth of its heap that calls for a major one
 * with it. Detaching the buffer takes it off the count, and frees it; that is less than 1 µs of work for 64 KiB.
 */
export function discardMemory(buffer: ArrayBuffer): void {
  nowhere.postMessage(undefined, [buffer]);
}
