import type { Address, Connection, ConnectionOptions, Listener, Transport } from '@verbmq/core';
import { AutoTransport } from '@verbmq/core/auto';
import { type MemoryFaults, MemoryNetwork, MemoryTransport } from '@verbmq/core/memory-transport';
import { type AnyConnectOptions, type AnyListenOptions, VerbmqTransport } from 'verbmq';
import { turns } from '../expectations.js';
import type { SetUp } from '../set-up.js';
import type { SimulatedDevice } from '../simulated-device.js';
import { memorySetUp } from './memory.js';
import { type RdmaAddresses, rdmaSetUp } from './rdma.js';
import { simulatedRdmaSetUp } from './rdma-simulated.js';
import { tcpSetUp } from './tcp.js';

/** What auto adds to the set-up of its base transport. */
const AUTO = {
  kind: 'auto',
  capabilities: {
    oneSided: 'emulated',
    atomics: 'emulated',
    largeMessages: 'native',
    zeroCopySend: 'emulated',
  },
  /** The window (4 MiB), and the high-water mark (1 MiB) with the message that crosses it. */
  unreadBytes: 5.5 * 1024 * 1024,
  foreignAddress: 'memory://nobody',
} as const;

/** Which sides have a fast path. */
export type FastSides = 'both' | 'client' | 'server' | 'none';

/** A peer that has died is not waited for any longer than this, so that its death is what the tests see. */
const RESUME_WINDOW_MS = 300;

/** Auto upon memory connections, with a fast path of the same kind where `fast` says so. */
export function autoOverMemorySetUp(fast: FastSides): SetUp {
  const base = new MemoryNetwork();
  const fastNetwork = new MemoryNetwork();
  let ports = 0;
  let made = 0;
  return {
    ...memorySetUp(),
    ...AUTO,
    // A test makes the transport of its listener first.
    createTransport: (options: ConnectionOptions = {}): Transport => {
      const isServer = made++ % 2 === 0;
      const hasFast = fast === 'both' || fast === (isServer ? 'server' : 'client');
      return new AutoTransport({
        resumeWindowMs: RESUME_WINDOW_MS,
        ...options,
        base: new MemoryTransport({ network: base }),
        fast: hasFast ? new MemoryTransport({ network: fastNetwork }) : undefined,
      });
    },
    foreignAddress: 'tcp://127.0.0.1:1',
    listenAddress: () => ({ host: 'here', port: ++ports }),
    deadAddress: () => ({ host: 'nobody', port: 1 }),
  };
}

/** For so many turns of the event loop a server that is slow to move says nothing on its base connection. */
const HESITATION_TURNS = 26;

/**
 * The same with a fast path on both sides, and a server that is slow to agree that it is used: until it does, a message
 * finds no room that would have found some before, and will find some after.
 */
export function autoThatMovesLateSetUp(): SetUp {
  const base = new MemoryNetwork();
  const fast = new MemoryNetwork();
  let hesitation: Promise<void> | undefined;
  const slow: MemoryFaults = {
    frame: ({ kind }) => (kind === 'message' ? (hesitation ?? 'deliver') : 'deliver'),
  };
  const trigger: MemoryFaults = {
    connect: () => {
      const begun = turns(HESITATION_TURNS).then(() => {
        if (hesitation === begun) hesitation = undefined;
      });
      hesitation = begun;
      return 'accept';
    },
  };
  let made = 0;
  return {
    ...autoOverMemorySetUp('both'),
    // A test makes the transport of its listener first.
    createTransport: (options: ConnectionOptions = {}): Transport => {
      const isServer = made++ % 2 === 0;
      return new AutoTransport({
        resumeWindowMs: RESUME_WINDOW_MS,
        ...options,
        base: new MemoryTransport({ network: base, ...(isServer && { faults: slow }) }),
        fast: new MemoryTransport({ network: fast, ...(!isServer && { faults: trigger }) }),
      });
    },
  };
}

/** What auto puts before each message. */
const HEADER_BYTES = 16;

/** VerbmqTransport that listens and connects with what `below` needs for that, as certificates. */
function transportUpon(below: SetUp): typeof VerbmqTransport {
  const { listenOptions, connectOptions } = below.peer;
  return class extends VerbmqTransport {
    override listen(address: Address, own?: AnyListenOptions): Promise<Listener> {
      return super.listen(address, { ...own, ...listenOptions });
    }
    override connect(address: Address, own?: AnyConnectOptions): Promise<Connection> {
      return super.connect(address, { ...own, ...connectOptions });
    }
  };
}

/** Auto as users have it, upon TCP or TLS, on a machine without RDMA. */
export function autoOverTcpSetUp(below: SetUp): SetUp {
  const options = { resumeWindowMs: RESUME_WINDOW_MS };
  const BoundTransport = transportUpon(below);
  return {
    ...below,
    ...AUTO,
    boundaries: below.boundaries.flatMap((length) => [length - HEADER_BYTES, length]),
    peer: { ...below.peer, module: 'verbmq', name: 'VerbmqTransport', options },
    createTransport: (own) => new BoundTransport({ ...options, ...own }),
  };
}

/** Auto as users have it, upon TCP, on a machine with RDMA on the device that has these addresses. */
export function autoOverRdmaSetUp(addresses: RdmaAddresses): SetUp {
  const [tcp, rdma] = [tcpSetUp(), rdmaSetUp(addresses)];
  const { listen, source } = addresses;
  const options = {
    resumeWindowMs: RESUME_WINDOW_MS,
    rdma: source === undefined ? {} : { localAddress: source },
  };
  return {
    ...tcp,
    ...AUTO,
    boundaries: [...tcp.boundaries, ...rdma.boundaries].map((length) => length - HEADER_BYTES),
    peer: { module: 'verbmq', name: 'VerbmqTransport', options },
    createTransport: (own) => new VerbmqTransport({ ...options, ...own }),
    listenAddress: () => ({ host: listen, port: 0 }),
    deadAddress: () => ({ host: listen, port: 1 }),
  };
}

/** Where no library is: a side that has no RDMA. */
const NO_LIBRARIES = { ibverbs: '/none/libibverbs.so', rdmacm: '/none/librdmacm.so' };

/** Auto upon TCP or TLS, with RDMA on the simulated device of this process as the fast path of these sides. */
export function autoOverSimulatedRdmaSetUp(
  device: SimulatedDevice,
  below: SetUp = tcpSetUp(),
  sides: FastSides = 'both',
): SetUp {
  const rdma = { libraries: device.libraries };
  const ofPeer = simulatedRdmaSetUp(device).peer;
  const BoundTransport = transportUpon(below);
  let made = 0;
  return {
    ...below,
    ...AUTO,
    crossesProcesses: false,
    peer: {
      ...below.peer,
      module: 'verbmq',
      name: 'VerbmqTransport',
      options: { resumeWindowMs: RESUME_WINDOW_MS, unencryptedFastPath: true, rdma: ofPeer.options },
      ...(ofPeer.preparation !== undefined && { preparation: ofPeer.preparation }),
    },
    // A test makes the transport of its listener first.
    createTransport: (own) => {
      const isServer = made++ % 2 === 0;
      const hasFast = sides === 'both' || sides === (isServer ? 'server' : 'client');
      return new BoundTransport({
        resumeWindowMs: RESUME_WINDOW_MS,
        unencryptedFastPath: true,
        ...own,
        rdma: hasFast ? rdma : { libraries: NO_LIBRARIES },
      });
    },
  };
}
