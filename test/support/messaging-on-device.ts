import type { Connection } from '@verbmq/core';
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
