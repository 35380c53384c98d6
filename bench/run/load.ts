import { build, type Histogram } from 'hdr-histogram-js';
import type { EchoClient, EchoHandlers } from '../contestants/contestant.js';

export interface LoadSpec {
  /** Length of each message. */
  readonly bytes: number;
  /** Messages that are on their way at any time. */
  readonly inFlight: number;
  readonly durationMs: number;
}

export interface LoadResult {
  /** Messages that were answered, rightly. */
  readonly messages: number;
  readonly elapsedMs: number;
  /** CPU time of this process during the load, in microseconds. */
  readonly cpuMicros: number;
  /** Round-trip times in nanoseconds; present where one message is on its way at a time. */
  readonly roundTrip?: {
    readonly p50: number;
    readonly p99: number;
    readonly p999: number;
    readonly max: number;
  };
}

/**
 * Sends messages to an echo server, as many as `inFlight` at a time, and checks every answer: they come in order, each
 * with the length and the marker of the message that it answers.
 */
export class Load {
  readonly handlers: EchoHandlers = {
    onAnswer: (data) => this.#answered(data),
    onError: (error) => this.#fail(error),
  };

  #onAnswer: ((data: Uint8Array) => void) | undefined;
  #reject: ((error: Error) => void) | undefined;
  #error: Error | undefined;

  run(client: EchoClient, spec: LoadSpec): Promise<LoadResult> {
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
    const message = new Uint8Array(spec.bytes);
    const histogram = build({
      lowestDiscernibleValue: 1,
      highestTrackableValue: 60e9,
      numberOfSignificantValueDigits: 3,
    });
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    const endAt = startedAt + spec.durationMs;
    let count = 0;
    let sentAt = startedAt;
    this.#onAnswer = (data) => {
      const now = performance.now();
      checkAnswer(data, spec.bytes, count);
      histogram.recordValue(Math.round((now - sentAt) * 1e6));
      count++;
      if (now >= endAt) {
        finish({
          messages: count,
          elapsedMs: now - startedAt,
          cpuMicros: cpuSince(cpu),
          roundTrip: summary(histogram),
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
    // A buffer for each message on its way: it is used again only when its answer is here.
    const messages = Array.from({ length: spec.inFlight }, () => new Uint8Array(spec.bytes));
    const cpu = process.cpuUsage();
    const startedAt = performance.now();
    let ending = false;
    setTimeout(() => {
      ending = true;
    }, spec.durationMs);
    let sent = 0;
    let answered = 0;
    const sendNext = (): void => {
      const message = messages[sent % spec.inFlight]!;
      mark(message, sent);
      sent++;
      client.send(message);
    };
    this.#onAnswer = (data) => {
      checkAnswer(data, spec.bytes, answered);
      answered++;
      if (!ending) sendNext();
      else if (answered === sent) {
        finish({ messages: answered, elapsedMs: performance.now() - startedAt, cpuMicros: cpuSince(cpu) });
      }
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

/** Writes a message's number into its first four bytes, and its complement into the last. */
export function mark(message: Uint8Array, number: number): void {
  message[0] = number;
  message[1] = number >>> 8;
  message[2] = number >>> 16;
  message[3] = number >>> 24;
  message[message.length - 1] = ~number;
}

/** @throws Error when `data` is not the message `number` of `bytes` bytes. */
export function checkAnswer(data: Uint8Array, bytes: number, number: number): void {
  if (data.length !== bytes) throw new Error(`answer ${number} has ${data.length} bytes instead of ${bytes}`);
  const marked =
    data[0] === (number & 255) &&
    data[1] === ((number >>> 8) & 255) &&
    data[2] === ((number >>> 16) & 255) &&
    data[3] === number >>> 24 &&
    data[bytes - 1] === (~number & 255);
  if (!marked) throw new Error(`answer ${number} does not have the content of message ${number}`);
}

function summary(histogram: Histogram): NonNullable<LoadResult['roundTrip']> {
  return {
    p50: histogram.getValueAtPercentile(50),
    p99: histogram.getValueAtPercentile(99),
    p999: histogram.getValueAtPercentile(99.9),
    max: histogram.maxValue,
  };
}

function cpuSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return user + system;
}
