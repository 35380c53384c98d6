import { networkInterfaces } from 'node:os';
import type { ProbeResult } from '@verbmq/core';
import { unlessAborted } from '@verbmq/core/transport-kit';
import type { Addon, NativeDevice } from './binding.js';
import { type LoadedAddon, loadAddon } from './load-addon.js';
import { describeFailure, REMEDIES } from './native-error.js';
import { resolveRdmaOptions, type SlotOptions } from './options.js';
import { Slab } from './slab.js';

/** An RDMA device of this machine, with its limits. */
export type RdmaDevice = NativeDevice;

/** What `probe()` says where RDMA works. */
export interface RdmaDetails {
  /** Every device found; those that cannot be used carry a `problem`. */
  readonly devices: readonly RdmaDevice[];
}

/** What is looked for. */
export interface ProbeOptions {
  /** Other files in place of libibverbs.so.1 and librdmacm.so.1, for tests. */
  readonly libraries?: { readonly ibverbs?: string; readonly rdmacm?: string };
  /** The memory of a connection that must be had. Default: that of the default options. */
  readonly slots?: SlotOptions;
  /** What must be there under this name; see RdmaTransportOptions. */
  readonly device?: string | undefined;
  readonly localAddress?: string | undefined;
  /** Ends the wait: what is answered then has the code `unanswered`. The driver's calls cannot be ended, and go on by themselves. */
  readonly signal?: AbortSignal;
  /** Another addon, or the lack of one, for tests. */
  readonly loaded?: LoadedAddon;
}

type Unavailable = Extract<ProbeResult, { available: false }>;

const NEVER = new AbortController().signal;
const LONGEST_INTERVAL_MS = 2 ** 31 - 1;
const UNANSWERED: Unavailable = {
  available: false,
  code: 'unanswered',
  reason: 'the transport was closed, or the wait given up, before the driver had answered',
  remedy:
    'close the transport when `probe()` has come back; if it never does, look for the driver in the kernel log (dmesg)',
};

/**
 * Whether RDMA works here, and if not, exactly why not. Tries for real: each device is opened and given a protection
 * domain, a completion queue and the registered memory of a connection, and the connection manager is opened. Gives everything back.
 * Never rejects for a machine without RDMA.
 *
 * The event loop goes on meanwhile, whatever the driver does: a thread waits for it. Of several probes each begins when the one before has
 * come back. They keep the process alive, as long as `signal` is not aborted.
 *
 * The codes are `addon-missing`, `library-missing`, `module-missing`, `no-device`, `no-permission`, `memlock`, `no-resources`,
 * `no-active-port` and `verbs`, and `device-not-found` and `address-not-available` where those are named; docs/rdma-setup.md has a row for
 * each. `unanswered` is what comes of the signal.
 */
export async function probeRdma(options: ProbeOptions = {}): Promise<ProbeResult<RdmaDetails>> {
  const loaded = options.loaded ?? loadAddon();
  if (loaded.addon === undefined) {
    return { available: false, code: 'addon-missing', reason: loaded.reason, remedy: loaded.remedy };
  }
  const { device: wanted, localAddress, signal = NEVER } = options;
  if (localAddress !== undefined && !hasAddress(localAddress)) {
    const reason = `this machine has no address ${localAddress} (localAddress)`;
    const remedy = 'name an address that `ip address` shows on an RDMA device, or none';
    return { available: false, code: 'address-not-available', reason, remedy, misnamed: true };
  }
  let devices: NativeDevice[];
  try {
    const memoryBytes = Slab.bytesFor(loaded.addon, options.slots ?? resolveRdmaOptions({}));
    devices = await tryInTurn(loaded.addon, { memoryBytes, ...options.libraries }, signal);
  } catch (error) {
    if (signal.aborted) return UNANSWERED;
    const { reason, message } = describeFailure(error);
    return reason === 'no-device' && wanted !== undefined
      ? notFound(wanted, [])
      : unavailable(reason, message);
  }
  if (wanted !== undefined) {
    const named = devices.filter(({ name }) => name === wanted);
    if (named.length === 0) return notFound(wanted, devices);
    devices = named;
  }
  const usable = devices.filter((device) => device.problem === undefined);
  if (usable.length === 0) {
    const [first] = devices;
    const problem = first?.problem ?? { reason: 'no-device', message: 'this machine has no RDMA device' };
    return unavailable(
      problem.reason,
      first === undefined ? problem.message : `${first.name}: ${problem.message}`,
    );
  }
  if (!usable.some((device) => device.ports.some((port) => port.state.startsWith('active')))) {
    const names = usable.map((device) => device.name).join(', ');
    return unavailable('no-active-port', `no port of the RDMA devices (${names}) is active`);
  }
  return { available: true, details: { devices } };
}

/** The last probe of this environment. */
let last: Promise<unknown> = Promise.resolve();

/** One at a time: the memory that one has locked might be what another one lacks. */
async function tryInTurn(
  addon: Addon,
  options: Parameters<Addon['probe']>[0],
  signal: AbortSignal,
): Promise<NativeDevice[]> {
  const found = last.then(() => {
    signal.throwIfAborted();
    return tryDevices(addon, options);
  });
  last = found.catch(() => {});
  const alive = setInterval(() => {}, LONGEST_INTERVAL_MS); // the addon leaves it to who waits
  try {
    return await unlessAborted(found, signal);
  } finally {
    clearInterval(alive);
  }
}

function tryDevices(addon: Addon, options: Parameters<Addon['probe']>[0]): Promise<NativeDevice[]> {
  return new Promise((resolve, reject) => {
    addon.probe(options, (error, devices) => (error === undefined ? resolve(devices) : reject(error)));
  });
}

function notFound(device: string, devices: readonly NativeDevice[]): Unavailable {
  const names = devices.map(({ name }) => name).join(', ');
  const reason = `this machine has no RDMA device ${device}${names === '' ? '' : `, but ${names}`}`;
  const remedy = 'name a device that `ibv_devices` lists, or none';
  return { available: false, code: 'device-not-found', reason, remedy, misnamed: true };
}

function hasAddress(address: string): boolean {
  const plain = address.replace(/%.*$/, '').toLowerCase();
  return Object.values(networkInterfaces()).some((of) => of?.some((each) => each.address === plain));
}

function unavailable(code: string, reason: string): Unavailable {
  const remedy = REMEDIES[code] ?? 'run `ibv_devinfo -v` and look at the kernel log (dmesg) for the device';
  return { available: false, code, reason, remedy };
}
