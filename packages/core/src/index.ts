/**
 * The contract that every verbmq transport keeps, and what is built upon it. Those who implement a transport find
 * more in `@verbmq/core/transport-kit`.
 * @module
 */
export * from './contract/index.js';
