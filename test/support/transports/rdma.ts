import type { Address, Connection } from '@verbmq/core';
import { type RdmaConnectOptions, RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import type { SetUp } from '../set-up.js';

/** What the environment says of the device to test on. */
export interface RdmaAddresses {
  /** An IP address of the device, to listen on. */
  readonly listen: string;
  /** Where to connect from, where that is another device. */
  readonly source: string | undefined;
  /** What its connections do about atomic operations: iWARP devices have none of their own. */
  readonly atomics: 'native' | 'emulated';
}

/**
 * RDMA on the device that has these addresses: Soft-RoCE, Soft-iWARP, or a real one. The kernel's part of a connection
 * outlives neither side, so peers may be in other processes. `own`: options of all its transports.
 */
export function rdmaSetUp({ listen, source, atomics }: RdmaAddresses, own: RdmaTransportOptions = {}): SetUp {
  const connectOptions = source === undefined ? {} : { localAddress: source };

  class BoundRdmaTransport extends RdmaTransport {
    override connect(address: Address, options?: RdmaConnectOptions): Promise<Connection> {
      return super.connect(address, { ...options, ...connectOptions });
    }
  }

  return {
    kind: 'rdma',
    capabilities: { oneSided: 'native', atomics, largeMessages: 'native', zeroCopySend: 'native' },
    /** Inline data, slots with their header, and the lengths at which a large message is cut and borrowed. */
    boundaries: [64, 220, 256, 1024, 4096 - 16, 8192, 512 * 1024, 1024 * 1024],
    /** The window for large messages, the receive slots of one side and the send slots of the other, and the high-water mark. */
    unreadBytes: 5.5 * 1024 * 1024,
    crossesProcesses: true,
    peer: { module: '@verbmq/native', name: 'RdmaTransport', options: { ...own }, connectOptions },
    createTransport: (options) => new BoundRdmaTransport({ ...own, ...options }),
    listenAddress: () => ({ host: listen, port: 0 }),
    deadAddress: () => ({ host: listen, port: 1 }),
  };
}

/** @throws when there is no device to test on: these tests are run where there is one, and may not pass elsewhere. */
export function rdmaAddresses(): RdmaAddresses {
  const listen = process.env.VERBMQ_RDMA_ADDRESS;
  if (listen === undefined) {
    throw new Error('set VERBMQ_RDMA_ADDRESS to an IP address of an RDMA device, or run this in the guest');
  }
  const atomics = process.env.VERBMQ_GUEST_DRIVER === 'siw' ? 'emulated' : 'native';
  return { listen, source: process.env.VERBMQ_RDMA_SOURCE_ADDRESS, atomics };
}
