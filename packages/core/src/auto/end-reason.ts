import { type ErrorCode, VerbmqError } from '../contract/errors.js';

/** Begins the reason with which a session that ends aborts its connections: so its end is told apart from a broken path. */
const MARK = 'auto-end ';

/** What a session that ends with `error` gives its connections as the reason. */
export function endReason(error: VerbmqError, reasonForPeer: string | undefined): string {
  return `${MARK}${codeForPeer(error, reasonForPeer)}: ${reasonForPeer ?? 'the peer has given the session up'}`;
}

/** The error with which the peer has ended the session, or `undefined` where only the path below has ended. */
export function errorOfEnd(error: VerbmqError): VerbmqError | undefined {
  if (error.code !== 'ERR_VERBMQ_PEER_ABORTED') return undefined;
  const match = new RegExp(`${MARK}(\\w+): ([^]*)$`).exec(error.message);
  if (match === null) return undefined;
  const reason = match[2] as string;
  switch (match[1]) {
    case 'ERR_VERBMQ_REMOTE_ACCESS':
      return new VerbmqError('ERR_VERBMQ_REMOTE_ACCESS', `the peer refused a one-sided operation: ${reason}`);
    case 'ERR_VERBMQ_CONNECTION_LOST':
      return new VerbmqError('ERR_VERBMQ_CONNECTION_LOST', reason);
    default:
      return new VerbmqError('ERR_VERBMQ_PEER_ABORTED', `the peer aborted the connection: ${reason}`);
  }
}

/** No data may take the base connection, and the fast path has ended. */
export function requiredPathBroke(): VerbmqError {
  return new VerbmqError(
    'ERR_VERBMQ_CONNECTION_LOST',
    'the fast path broke, and the policy of this side or of the peer is require-rdma',
    { reason: 'broken' },
  );
}

/** The error that the end of a base connection is for its session. */
export function lostError(cause: VerbmqError | undefined): VerbmqError {
  if (cause?.code === 'ERR_VERBMQ_PEER_TIMEOUT') return cause;
  return new VerbmqError(
    'ERR_VERBMQ_CONNECTION_LOST',
    `the base connection has ended${cause === undefined ? '' : ` (${cause.message})`}`,
    { cause },
  );
}

function codeForPeer(error: VerbmqError, reasonForPeer: string | undefined): ErrorCode {
  if (error.code === 'ERR_VERBMQ_REMOTE_ACCESS') return error.code;
  return reasonForPeer === undefined ? 'ERR_VERBMQ_CONNECTION_LOST' : 'ERR_VERBMQ_PEER_ABORTED';
}
