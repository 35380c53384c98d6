// What speaks auto's handshake byte by byte on a bare TCP socket.
import { once } from 'node:events';
import { connect } from 'node:net';
import type { HostAddress, Listener } from '@verbmq/core';
import { FrameType } from '../../packages/tcp-fallback/src/frame.js';
import { encodeHello } from '../../packages/tcp-fallback/src/hello.js';
import { data, HELLO, RawPeer } from '../../packages/tcp-fallback/test/raw-peer.js';
import { Kind } from './raw-auto-peer.js';

const MIB = 1024 * 1024;

/** A socket on which the hellos of TCP have been said, and nothing else. It comes from `localAddress`. */
export async function stranger({ address }: Listener, localAddress = '127.0.0.1'): Promise<RawPeer> {
  const { port } = address as HostAddress;
  const socket = connect({ host: '127.0.0.1', port, localAddress });
  await once(socket, 'connect');
  const peer = new RawPeer(socket);
  peer.write(encodeHello(HELLO));
  await peer.opening();
  return peer;
}

/** A frame of auto's that carries JSON. */
export function jsonFrame(kind: number, fields: object): Buffer {
  const bytes = Buffer.concat([Buffer.alloc(16), Buffer.from(JSON.stringify(fields))]);
  bytes[0] = kind;
  return data(bytes);
}

/** A message of so many bytes, as the numbered frame with this number. */
export function messageFrame(number: number, bytes: number): Buffer {
  const frame = Buffer.alloc(16 + bytes);
  frame.writeUInt32LE(0x1_0001, 0); // DATA, one message
  frame.writeUInt32LE(number, 4);
  return data(frame);
}

export function say(peer: RawPeer, kind: number, fields: object): void {
  peer.write(jsonFrame(kind, fields));
}

/** The first word of a client, which opens a session, or resumes one. */
export function sayHello(peer: RawPeer, more: object = {}): void {
  say(peer, Kind.HELLO, { version: 1, maxMessageBytes: 100 * MIB, windowBytes: MIB, nonce: '', ...more });
}

/** The kind of the next frame of auto's, and what it says. */
export async function heard(peer: RawPeer): Promise<{ kind: number; fields: Record<string, unknown> }> {
  const { payload } = await peer.frameOf(FrameType.DATA);
  return { kind: payload[0] as number, fields: JSON.parse(payload.toString('utf8', 16)) };
}
