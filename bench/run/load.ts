import { type Client, type EchoClient, type EchoHandlers, TAKEN_BYTES } from '../contestants/contestant.js';
import { runCalls } from './call-load.js';
import { cpuSince, type LoadResult, type LoadSpec } from './load-result.js';
import { checkAnswer, createMessage, mark } from './marking.js';
import { Phase } from './phase.js';
import { runPush } from './push-load.js';
import { runReads } from './read-load.js';
import { RoundTrips } from './round-trips.js';

/**
 * Sends messages over one connection, as many as `inFlight` at a time, and checks every answer: it must have the length and
 * the marker of the message that it answers. Calls have their answers; of messages, the answers come in order. Loads that
 * are no echo are in files of their own.
 */
export class Load {
  readonly handlers: EchoHandlers = {
    onAnswer: (data) => this.#answered(data),
    onError: (error) => this.#fail(error),
  };

  #onAnswer: ((data: Uint8Array) => void) | undefined;
  #reject: ((error: Error) => void) | undefined;
  #error: Error | undefined;

  run(client: Client, spec: LoadSpec): Promise<LoadResult> {
    if ('call' in client) return runCalls(client, spec);
    if ('push' in client) return runPush(client, spec);
    if ('read' in client) return runReads(client, spec);
    return new Promise((resolve, reject) => {
      if (this.#error !== undefined) throw this.#error;
      this.#reject = reject;
      const finish = (result: LoadResult): void => {
        this.#onAnswer = undefined;
        this.#reject = undefined;
        resolve(result);
      };
      if (spec.inFlight === 1) this.#runSequential(client, spec, finish);
      else this.#runPipelined(client, spec, finish);
    });
  }

  #runSequential(client: EchoClient, spec: LoadSpec, finish: (result: LoadResult) => void): void {
    const message = createMessage(spec.bytes);
    const roundTrips = new RoundTrips();
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    const endAt = startedAt + spec.durationMs;
    let count = 0;
    let sentAt = startedAt;
    this.#onAnswer = (data) => {
      const now = performance.now();
      checkAnswer(data, spec.bytes, count);
      roundTrips.record(now - sentAt);
      count++;
      if (now >= endAt) {
        finish({
          messages: count,
          elapsedMs: now - startedAt,
          cpuMicros: cpuSince(cpu),
          roundTrip: roundTrips.summary(),
        });
        return;
      }
      mark(message, count);
      sentAt = performance.now();
      client.send(message);
    };
    mark(message, 0);
    client.send(message);
  }

  #runPipelined(client: EchoClient, spec: LoadSpec, finish: (result: LoadResult) => void): void {
    // A buffer for each message on its way, which is used again only when its answer is here; one for all where they are
    // taken at once, so that a thousand connections do not fill the cache with what the benchmark needs.
    const buffers = spec.bytes <= TAKEN_BYTES ? 1 : spec.inFlight;
    const messages = Array.from({ length: buffers }, () => createMessage(spec.bytes));
    const phase = new Phase(spec.durationMs);
    let sent = 0;
    let answered = 0;
    const sendNext = (): void => {
      const message = messages[sent % buffers]!;
      mark(message, sent);
      sent++;
      client.send(message);
    };
    this.#onAnswer = (data) => {
      checkAnswer(data, spec.bytes, answered);
      answered++;
      if (!phase.over) sendNext();
      else if (answered === sent) finish(phase.result(answered));
    };
    for (let i = 0; i < spec.inFlight; i++) sendNext();
  }

  #answered(data: Uint8Array): void {
    if (this.#onAnswer === undefined) {
      this.#fail(new Error('an answer came that nobody waits for'));
      return;
    }
    try {
      this.#onAnswer(data);
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #fail(error: Error): void {
    this.#error ??= error;
    this.#onAnswer = () => {};
    this.#reject?.(error);
  }
}
