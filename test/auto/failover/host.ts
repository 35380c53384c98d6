import type { AutoConnection } from '@verbmq/core/auto';
import { NumberedReceiver, NumberedSender } from '../../support/numbered-stream.js';
import type { Shell } from './shell.js';

/** So many messages that come show that they flow again. */
const SOME = 30;

/** One of two hosts: its end of the connection, with traffic from and to it, and what can go wrong there. */
export interface Host {
  /** Resolves when some more messages have come. */
  progress(): Promise<void>;
  /** From now on the longest gap between two messages that come is looked for; one that has begun counts in full. */
  watch(): Promise<void>;
  longestGapMs(): Promise<number>;
  /** Sends no more. Answers with how many were sent in all. */
  stopSending(): Promise<number>;
  /** Resolves when so many messages have come. */
  reached(count: number): Promise<void>;
  report(): Promise<HostReport>;

  /** Resolves when it is gone: when nobody has it open any more. */
  deleteDevice(): Promise<void>;
  addDevice(): Promise<void>;
  /** What this host sends on the cable is lost, and nobody is told. */
  dropPackets(): Promise<void>;
  passPackets(): Promise<void>;
  /** Resets a TCP connection of the session, when there is one. */
  resetTcp(): Promise<void>;
}

export interface HostReport {
  readonly messages: number;
  readonly bytes: number;
  /** The most that was kept for repetition, in bytes. */
  readonly keptBytes: number;
}

/** This host. `ended` rejects as soon as the connection ends or a message is not the one that was due. */
export function localHost(
  connection: AutoConnection,
  shell: Shell,
  tcpPort: number,
  maxBytes: number,
  random: () => number,
): Host & { readonly ended: Promise<never> } {
  let last = performance.now();
  let longestGapMs = 0;
  let keptBytes = 0;
  const receiver = new NumberedReceiver(connection, () => {
    const now = performance.now();
    longestGapMs = Math.max(longestGapMs, now - last);
    last = now;
  });
  const sender = new NumberedSender(connection, maxBytes, random, () => {
    keptBytes = Math.max(keptBytes, connection.session.keptBytes);
  });
  const closed = connection.closed.then(({ error }): never => {
    throw error ?? new Error('the connection was closed');
  });
  const ended = Promise.race([receiver.broken, closed]);
  ended.catch(() => {}); // those who wait are told
  const reached = (count: number): Promise<void> => Promise.race([receiver.reached(count), ended]);

  return {
    ended,
    reached,
    progress: () => reached(receiver.received + SOME),
    watch: async () => {
      longestGapMs = 0;
    },
    longestGapMs: async () => longestGapMs,
    stopSending: async () => {
      await sender.stop();
      return sender.sent;
    },
    report: async () => ({ messages: receiver.received, bytes: receiver.receivedBytes, keptBytes }),

    deleteDevice: async () => void (await shell.run('rdma link delete rxe0')),
    addDevice: async () => void (await shell.run('rdma link add rxe0 type rxe netdev eth0')),
    dropPackets: async () => void (await shell.run('tc qdisc add dev eth0 root netem loss 100%')),
    passPackets: async () => void (await shell.run('tc qdisc delete dev eth0 root')),
    resetTcp: async () => {
      const reset = `ss -K -H -t state established '( sport = :${tcpPort} or dport = :${tcpPort} )'`;
      // It tells which it has reset. There may be none for the moment.
      for (;;) if ((await shell.run(reset)) !== '') return;
    },
  };
}

/**
 * Another RDMA device. librdmacm closes one that is gone only where there is another one; see docs/rdma-setup.md. And
 * without any, a host could do no RDMA for a while, which would be another matter.
 */
export async function addOtherDevice(shell: Shell, netdev: string): Promise<void> {
  await shell.run(`rdma link add other type rxe netdev ${netdev}`);
}
