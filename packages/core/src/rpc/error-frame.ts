import { isVerbmqError } from '../contract/errors.js';
import type { FrameWriter } from './frame-writer.js';
import { type Metadata, writeMetadata } from './metadata.js';
import type { Outgoing, Sender } from './outgoing.js';
import { FLAG, FRAME, HEADER_BYTES, MAX_ERROR_TEXT_BYTES } from './protocol.js';
import type { ErrorDescription } from './remote-error.js';
import type { ServerSettings } from './server-core.js';

interface FailedCall extends Sender {
  readonly id: number;
  readonly method: string;
  answerMetadata: Metadata | undefined;
}

/**
 * Sends the error that ends a call. One that rpc raised travels as it is; of one that the handler threw, what the server
 * chose to show. Details and metadata that cannot be encoded, for whatever reason, are left out: the error is what counts.
 *
 * @throws VerbmqError `ERR_VERBMQ_CLOSED`
 */
export function writeError(
  writer: FrameWriter,
  call: FailedCall,
  error: unknown,
  thrown: boolean,
  settings: ServerSettings,
  outgoing: Outgoing,
): true | Promise<void> {
  const fromRpc = !thrown && isVerbmqError(error);
  const { code, reason, message, details } = fromRpc
    ? { code: error.code, reason: error.reason ?? '', message: error.message, details: undefined }
    : { reason: '', ...describe(error, settings) };
  const leftOut = (what: string, failure: unknown): void => {
    settings.logger.warn({ method: call.method, err: failure }, `the ${what} of an error were left out`);
  };
  const head = (): void => {
    const start = (): void => void writer.start(FRAME.error, fromRpc ? 0 : FLAG.thrown, call.id);
    start();
    if (call.answerMetadata !== undefined) {
      try {
        writer.addFlag(FLAG.metadata);
        writeMetadata(writer, call.answerMetadata);
      } catch (failure) {
        leftOut('metadata', failure);
        call.answerMetadata = undefined;
        start();
      }
    }
    writeTexts(writer, outgoing, code ?? 'ERR_VERBMQ_RPC_HANDLER_FAILED', reason, message);
  };
  head();
  if (details !== undefined) {
    try {
      return outgoing.sendWhole(writer, details, settings.codec);
    } catch (failure) {
      if (isVerbmqError(failure, 'ERR_VERBMQ_CLOSED')) throw failure;
      leftOut('details', failure);
      head();
    }
  }
  try {
    return outgoing.sendHead(writer);
  } catch (failure) {
    if (call.answerMetadata === undefined || isVerbmqError(failure, 'ERR_VERBMQ_CLOSED')) throw failure;
    leftOut('metadata', failure); // there is no room for them beside the error
    call.answerMetadata = undefined;
    head();
    return outgoing.sendHead(writer);
  }
}

/** Code, reason and message of an error, which fit into a frame together, however short the messages of this connection are. */
export function writeTexts(
  writer: FrameWriter,
  outgoing: Outgoing,
  code: string,
  reason: string,
  message: string,
): void {
  const most = Math.min(MAX_ERROR_TEXT_BYTES, (outgoing.frameBytes - HEADER_BYTES) / 3);
  writer.text(cut(code, most)).text(cut(reason, most)).text(cut(message, most));
}

/** What of an error is shown: texts, whatever was thrown, and whatever the program makes of it. */
function describe(error: unknown, settings: ServerSettings): ErrorDescription {
  try {
    const { code, message, details } = settings.describeError(error);
    const stack = settings.exposeStacks && error instanceof Error ? error.stack : undefined;
    return {
      code: code === undefined ? undefined : String(code),
      message: String(stack ?? message),
      details,
    };
  } catch (failure) {
    settings.logger.error({ err: failure }, 'describeError failed');
    return { message: 'the handler failed' };
  }
}

/** Where it is too long, cut by characters, each of which takes three bytes at most. */
function cut(text: string, mostBytes: number): string {
  if (text.length * 3 <= mostBytes || Buffer.byteLength(text) <= mostBytes) return text;
  return text.slice(0, Math.floor(mostBytes / 3));
}
