import type { Connection } from '../contract/connection.js';
import { RpcSession } from './session.js';

/** What rpc does on one connection. */
export interface RpcConnectionStats {
  /** Calls of this side that wait for their answers. */
  readonly pendingCalls: number;
  /** Calls of the peer whose answers have not left. */
  readonly runningCalls: number;
  /** Frames that came for calls that nobody waited for any more. */
  readonly lateAnswers: number;
  /** Bytes that wait because the peer does not take them. */
  readonly backlogBytes: number;
}

/** @throws VerbmqError `ERR_VERBMQ_RECEIVER_ATTACHED` when the connection is used for something else. */
export function rpcStats(connection: Connection): RpcConnectionStats {
  const { caller, callee, outgoing } = RpcSession.of(connection);
  return {
    pendingCalls: caller.pendingCalls,
    runningCalls: callee.runningCalls,
    lateAnswers: caller.lateAnswers,
    backlogBytes: outgoing.backlog.bytes,
  };
}
