import { VerbmqError } from '../contract/errors.js';
import { RemoteError } from './remote-error.js';

/**
 * To a consumer or a subscriber whose broker has ended it. Neither ever ends by itself: a worker that ended in silence with its broker would be
 * missed by nobody, and missing.
 * @param remedy what the program does then.
 */
export function releasedError(who: 'consumer' | 'subscriber', remedy: string): VerbmqError {
  return new VerbmqError(
    'ERR_VERBMQ_CANCELLED',
    `the broker has let this ${who} go, as one does that shuts down: ${remedy} when its connection has ended, on another one`,
    { reason: 'released' },
  );
}

/** That a broker has enough, which it tells as handlers tell, is an error of verbmq, not of somebody's handler. Other errors stay as they are. */
export function refusal(error: unknown, reason: 'queues' | 'subscriber'): unknown {
  if (!(error instanceof RemoteError) || error.code !== 'ERR_VERBMQ_OVERLOADED') return error;
  return new VerbmqError('ERR_VERBMQ_OVERLOADED', error.message, { cause: error, reason });
}
