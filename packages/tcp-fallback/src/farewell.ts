import type { Socket } from 'node:net';

/** How long the peer may take to hear the last words, in milliseconds. */
const FAREWELL_MS = 250;

/**
 * Sends last words and ends the socket, in bounded time. What still arrives is read and dropped until the peer ends
 * its side: a socket that is closed over unread bytes is reset, and a reset can overtake the words.
 */
export function farewell(socket: Socket, words: Uint8Array): void {
  if (socket.destroyed) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const end = (): void => {
    socket.destroy();
  };
  const timer = setTimeout(end, FAREWELL_MS);
  socket.once('close', () => clearTimeout(timer));
  socket.once('end', end);
  socket.resume();
  socket.end(words);
  if (socket.readableEnded) socket.once('finish', end);
}

/** Resolves when a socket that was told farewell, or destroyed, is gone. */
export function gone(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });
}
