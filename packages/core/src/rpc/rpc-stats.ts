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

const NOTHING: RpcConnectionStats = { pendingCalls: 0, runningCalls: 0, lateAnswers: 0, backlogBytes: 0 };

/**
 * Counters, as they are at this moment; of a connection on which there are no calls, they are 0.
 * @throws TypeError for what is no connection.
 */
export function rpcStats(connection: Connection): RpcConnectionStats {
  const session = RpcSession.find(connection); // not `of`, which would take the messages of a connection that has other uses
  if (session === undefined) return { ...NOTHING };
  const { caller, callee, outgoing } = session;
  return {
    pendingCalls: caller.pendingCalls,
    runningCalls: callee.runningCalls,
    lateAnswers: caller.lateAnswers,
    backlogBytes: outgoing.backlog.bytes,
  };
}
