/**
 * Work queues: pushed by some, done by others, each piece by one. In memory: a queue is gone with the process that holds it.
 * @module
 */

export type { MessageHeaders } from '../rpc/message-headers.js';
export { QueueBroker, type QueueBrokerOptions, type QueueBrokerStats } from './broker.js';
export {
  type ConsumeOptions,
  type Consumption,
  type PushOptions,
  Queue,
  type QueueOptions,
  queue,
  type WorkOptions,
} from './client.js';
export { type JobTrace, type PushTrace, queueChannels } from './diagnostics.js';
export type { Job } from './given-job.js';
export type { QueueStats, WhenFull } from './work-queue.js';
