export * from '@verbmq/core/pubsub';
