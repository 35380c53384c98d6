export * from '@verbmq/core/queue';
