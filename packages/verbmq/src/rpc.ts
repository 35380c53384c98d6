export * from '@verbmq/core/rpc';
