/**
 * Events for whoever has subscribed to their topics. Nothing is kept for those who have not.
 * @module
 */
export type { MessageHeaders } from '../rpc/message-headers.js';
export { PubsubBroker, type PubsubBrokerOptions, type PubsubStats } from './broker.js';
export {
  type PublishOptions,
  Pubsub,
  type PubsubEvent,
  pubsub,
  type SubscribeOptions,
  type Subscription,
} from './client.js';
export { type EventTrace, type PublishTrace, pubsubChannels } from './diagnostics.js';
export {
  type ResubscribedEvent,
  type ResubscribeOptions,
  type Resubscription,
  resubscribe,
} from './resubscribe.js';
export type { WhenSlow } from './subscriber.js';
