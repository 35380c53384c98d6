import type { Codec } from '../codec/codec.js';
import { Assembly, type AssemblyBudget } from './assembly.js';
import { ownBody, readBody } from './body.js';
import { FrameError, type FrameReader } from './frame-reader.js';
import type { InboundStream } from './inbound-stream.js';
import { FLAG } from './protocol.js';

/** What items and large bodies need of the call that they belong to, on either side. */
export interface IncomingCall {
  /** Where items go, if the call receives a stream. */
  readonly incomingStream: InboundStream | undefined;
  readonly codec: Codec;
  /** The body that arrives in pieces at the moment; and what it costs the stream when it is an item. */
  assembly: Assembly | undefined;
  itemCost: number | undefined;
  /** Ends this call alone. */
  refuse(error: unknown): void;
}

/** @throws FrameError */
export function receiveItem(call: IncomingCall, reader: FrameReader, budget: AssemblyBudget): void {
  const stream = call.incomingStream;
  if (stream === undefined) throw new FrameError('an item of a call that is no stream');
  if (call.assembly !== undefined) throw new FrameError('an item within an item');
  if (reader.has(FLAG.partial)) {
    announce(call, reader, budget, stream);
    return;
  }
  const cost = stream.charge(reader.remaining);
  try {
    stream.push(readBody(reader, call.codec), cost);
  } catch (error) {
    call.refuse(error);
  }
}

/**
 * A body was announced whose pieces follow. `false`: it was refused, and the call with it.
 * @throws FrameError
 */
export function announce(
  call: IncomingCall,
  reader: FrameReader,
  budget: AssemblyBudget,
  stream?: InboundStream,
): boolean {
  const total = reader.number();
  reader.end();
  if (total === 0) throw new FrameError('a body in pieces of which there is none');
  call.itemCost = stream?.charge(total);
  try {
    call.assembly = new Assembly(budget, total, reader.has(FLAG.raw));
    return true;
  } catch (error) {
    call.refuse(error);
    return false;
  }
}

/**
 * The next piece. After the last one, an item goes to its stream, and any other body to `complete`, which reads it.
 * @throws FrameError
 */
export function receivePiece(
  call: IncomingCall,
  reader: FrameReader,
  complete: (read: () => unknown) => void,
): void {
  const { assembly } = call;
  if (assembly === undefined) throw new FrameError('a piece of nothing');
  let whole: Uint8Array | undefined;
  try {
    whole = assembly.add(reader.bytes.subarray(reader.position, reader.limit));
  } catch (error) {
    if (error instanceof FrameError) throw error;
    call.refuse(error);
    return;
  }
  if (whole === undefined) return;
  call.assembly = undefined;
  const bytes = whole;
  const read = (): unknown => ownBody(bytes, assembly.raw, call.codec);
  if (call.itemCost === undefined) {
    complete(read);
    return;
  }
  try {
    call.incomingStream?.push(read(), call.itemCost);
  } catch (error) {
    call.refuse(error);
  }
}
