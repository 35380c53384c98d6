import type { TracingChannel } from 'node:diagnostics_channel';
import { onTestFinished } from 'vitest';

const EVENTS = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const;

/** Subscribes to a tracing channel until the test is over: `hear` gets the event's name and what was told. */
export function hearTracing<T extends object>(
  channel: TracingChannel<unknown, T>,
  hear: (event: (typeof EVENTS)[number], message: T) => void,
): void {
  for (const event of EVENTS) {
    const listener = (message: unknown): void => hear(event, message as T);
    channel[event].subscribe(listener);
    onTestFinished(() => {
      channel[event].unsubscribe(listener);
    });
  }
}
