import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Connection, Listener } from '@verbmq/core';
import { type RpcServer, type Service, serve } from '@verbmq/core/rpc';
import { onTestFinished } from 'vitest';
import { type PeerTransport, stretched } from './set-up.js';
import { takeProcess } from './waiting-process.js';

/** A death that no system call tells must be found by heartbeats within the test's time. */
export const QUICK_HEARTBEATS = { heartbeatIntervalMs: stretched(500), peerTimeoutMs: stretched(2000) };

/** What a peer tells of itself: that something has happened, and what else it says of that. */
export interface Report {
  readonly event: string;
  readonly url?: string;
  readonly [more: string]: unknown;
}

export interface ScriptedPeer {
  readonly child: ChildProcess;
  /** The first report of `event`. */
  told(event: string): Promise<Report>;
}

/** What a peer is to do: with which transport, and what its program knows more. */
export interface ScriptedTask {
  readonly peer: PeerTransport;
  readonly [more: string]: unknown;
}

/** Has `program` do `task`, in a process of its own that can be killed, and is when the test is over. */
export function startPeer(program: URL, task: ScriptedTask): ScriptedPeer {
  const child = takeProcess(fileURLToPath(program), task.peer.module);
  child.send(task);
  const reports: Report[] = [];
  child.on('message', (report: Report) => reports.push(report));
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const told = async (event: string): Promise<Report> => {
    for (;;) {
      const report = reports.find((each) => each.event === event);
      if (report !== undefined) return report;
      await Promise.race([once(child, 'message'), once(child, 'exit')]);
      if (child.exitCode !== null) throw new Error(`the peer exited before it told of ${event}`);
    }
  };
  return { child, told };
}

/** Serves each connection by itself. `accepted` is the first one, at which the first of the servers is. */
export function serveEach(
  listener: Listener,
  service: Service,
): { readonly accepted: Promise<Connection>; readonly servers: readonly RpcServer[] } {
  const servers: RpcServer[] = [];
  const accepted = new Promise<Connection>((resolve) => {
    listener.onConnection((connection) => {
      servers.push(serve(connection, service));
      resolve(connection);
    });
  });
  return { accepted, servers };
}
