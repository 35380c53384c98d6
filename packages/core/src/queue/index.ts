/**
 * Work queues: pushed by some, done by others, each piece by one. In memory: a queue is gone with the process that holds it.
 * @module
 */
export { QueueBroker, type QueueBrokerOptions, type QueueBrokerStats } from './broker.js';
export { type ConsumeOptions, type Consumption, type Job, Queue, queue } from './client.js';
export type { QueueStats, WhenFull } from './work-queue.js';
