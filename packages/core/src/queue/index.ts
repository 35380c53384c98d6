/**
 * Work queues: pushed by some, done by others, each piece by one. In memory: a queue is gone with the process that holds it.
 * @module
 */
export { QueueBroker, type QueueBrokerOptions, type QueueBrokerStats } from './broker.js';
export { type ConsumeOptions, type Consumption, Queue, queue, type WorkOptions } from './client.js';
export type { Job } from './deliveries.js';
export type { QueueStats, WhenFull } from './work-queue.js';
