import type { Connection } from '@verbmq/core';
import { describe } from 'vitest';
import { asAuto, onFast } from './auto-pair.js';
import type { SetUp } from './set-up.js';
import { autoOverRdmaSetUp } from './transports/auto.js';
import { rdmaAddresses, rdmaSetUp } from './transports/rdma.js';

/**
 * In the guest, where Node is some fifteen times slower, every run checks calls, queues and topics over RDMA, and that they go on when
 * a path of theirs breaks. That they are attacked and killed there, and all of it on auto, takes too long, and is for who asks for it.
 */
export const MESSAGING_IN_FULL = process.env.VERBMQ_MESSAGING === 'full';

/** What calls, queues and topics are tested over on a device. */
export interface MessagingSetUp {
  readonly name: string;
  readonly setUp: SetUp;
  /** Resolves when a new connection is on the device. */
  readonly ready: (connection: Connection) => Promise<unknown>;
}

const addresses = rdmaAddresses();
const driver = process.env.VERBMQ_GUEST_DRIVER ?? 'device';

export const ON_RDMA: MessagingSetUp = {
  name: `RDMA (${driver})`,
  setUp: rdmaSetUp(addresses),
  ready: async () => {},
};

export const ON_AUTO: MessagingSetUp = {
  name: `auto upon TCP with RDMA (${driver})`,
  setUp: autoOverRdmaSetUp(addresses),
  ready: (connection) => onFast(asAuto(connection)),
};

/** The tests of queues, or of topics. */
export interface MessagingTests {
  readonly chapters: (name: string, setUp: SetUp) => void;
  readonly killedPeers: (name: string, setUp: SetUp, ready: MessagingSetUp['ready']) => void;
  readonly leftovers: (setUp: SetUp) => void;
  readonly hostilePeers: (setUp: SetUp) => void;
  readonly hostileBrokers: (setUp: SetUp) => void;
}

/** Declares those of them that are run on a device, always or in full. */
export function messagingOnDevice(tests: MessagingTests): void {
  tests.chapters(ON_RDMA.name, ON_RDMA.setUp);
  if (!MESSAGING_IN_FULL) return;
  tests.chapters(ON_AUTO.name, ON_AUTO.setUp);
  for (const { name, setUp, ready } of [ON_RDMA, ON_AUTO]) {
    tests.killedPeers(name, setUp, ready);
    describe(`nothing stays behind over ${name}`, () => tests.leftovers(setUp));
  }
  describe(`over ${ON_RDMA.name}`, () => {
    tests.hostilePeers(ON_RDMA.setUp);
    tests.hostileBrokers(ON_RDMA.setUp);
  });
}
