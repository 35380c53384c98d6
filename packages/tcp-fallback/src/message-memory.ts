import { RecycledMemory } from '@verbmq/core/transport-kit';

/** Memory for messages that come in pieces, for all connections of the process together: at most 8 MiB wait to be used again. */
export const messageMemory = new RecycledMemory(8 * 1024 * 1024);
