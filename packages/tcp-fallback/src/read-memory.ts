import net, { type NetConnectOpts, type Socket } from 'node:net';
import { keepInPlace, markReused } from '@verbmq/core/transport-kit';

/** What one read takes at most, in bytes; as much as Node's own reads. */
const READ_BYTES = 64 * 1024;

/**
 * Where sockets are read into: one for all of the process, for what one read brought is handled before the next one begins. Else
 * Node has fresh memory for every read, which costs more than all that this transport does with a short message, and garbage.
 */
// Not all of its ArrayBuffer: a chunk that is all of one has that memory for itself.
const memory = Buffer.allocUnsafeSlow(READ_BYTES + 8).subarray(0, READ_BYTES);
markReused(memory.buffer);
keepInPlace(memory.buffer);

/** Whether a socket was read into it. */
export function isReadMemory(buffer: ArrayBufferLike): boolean {
  return buffer === memory.buffer;
}

/** What was read last: chunks are often as long as the ones before them. */
let lastRead = memory;

/**
 * As `net.connect`, but the chunks of its 'data' events are views of memory that the next read overwrites, of whichever socket.
 * Node offers that to the side that connects, and not to servers.
 */
export function connectReusingMemory(options: NetConnectOpts): Socket {
  const socket: Socket = net.connect({
    ...options,
    onread: {
      buffer: memory,
      callback(bytes) {
        if (lastRead.length !== bytes) lastRead = memory.subarray(0, bytes);
        socket.emit('data', lastRead);
        return true; // read on
      },
    },
  });
  return socket;
}
