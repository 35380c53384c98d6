import { isVerbmqError } from '../contract/errors.js';
import type { FrameWriter } from './frame-writer.js';
import { type Metadata, writeMetadata } from './metadata.js';
import { FLAG, FRAME, HEADER_BYTES, MAX_ERROR_TEXT_BYTES } from './protocol.js';
import type { ErrorDescription } from './remote-error.js';
import type { ServerSettings } from './server-core.js';
import type { RpcSession, Sender } from './session.js';

interface FailedCall extends Sender {
  readonly id: number;
  readonly method: string;
  readonly answerMetadata: Metadata | undefined;
}

/**
 * Sends the error that ends a call. One that rpc raised travels as it is; of one that the handler threw, what the server
 * chose to show. Details that cannot be encoded are left out: the error is what counts.
 */
export function writeError(
  writer: FrameWriter,
  call: FailedCall,
  error: unknown,
  thrown: boolean,
  settings: ServerSettings,
  session: RpcSession,
): true | Promise<void> {
  const fromRpc = !thrown && isVerbmqError(error);
  const description: ErrorDescription = fromRpc ? error : describe(error, settings);
  const code = description.code ?? 'ERR_VERBMQ_RPC_HANDLER_FAILED';
  const reason = fromRpc ? (error.reason ?? '') : '';
  const stack = !fromRpc && settings.exposeStacks && error instanceof Error ? error.stack : undefined;
  // Code, reason and message fit into a frame together, however short the messages of this connection are.
  const most = Math.min(MAX_ERROR_TEXT_BYTES, (session.frameBytes - HEADER_BYTES) / 3);
  const head = (): void => {
    writer.start(FRAME.error, fromRpc ? 0 : FLAG.thrown, call.id);
    if (call.answerMetadata !== undefined) {
      writer.addFlag(FLAG.metadata);
      writeMetadata(writer, call.answerMetadata);
    }
    writer
      .text(cut(code, most))
      .text(cut(reason, most))
      .text(cut(stack ?? description.message, most));
  };
  head();
  const { details } = fromRpc ? { details: undefined } : description;
  if (details === undefined) return session.sendHead(writer);
  try {
    return session.sendWhole(writer, details, settings.codec);
  } catch (failure) {
    if (
      !isVerbmqError(failure, 'ERR_VERBMQ_ENCODE') &&
      !isVerbmqError(failure, 'ERR_VERBMQ_MESSAGE_TOO_LARGE')
    ) {
      throw failure;
    }
    settings.logger.warn({ method: call.method, err: failure }, 'the details of an error were left out');
    head();
    return session.sendHead(writer);
  }
}

function describe(error: unknown, settings: ServerSettings): ErrorDescription {
  try {
    const { code, message, details } = settings.describeError(error);
    return { code: code === undefined ? undefined : String(code), message: String(message), details };
  } catch (failure) {
    settings.logger.error({ err: failure }, 'describeError failed');
    return { message: 'the handler failed' };
  }
}

/** Cut by characters, each of which takes three bytes at most. */
function cut(text: string, mostBytes: number): string {
  return text.length * 3 <= mostBytes ? text : text.slice(0, Math.floor(mostBytes / 3));
}
