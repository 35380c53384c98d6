export * from '@verbmq/core/codec';
