import { createRequire } from 'node:module';
import { describe, onTestFinished, test } from 'vitest';
import { inFull } from '../../scripts/test/scope.mjs';
import { build, obstacle } from '../simulated-verbs/build.mjs';
import { isSanitized } from './set-up.js';

/** How a simulated device behaves; README.md in test/simulated-verbs tells the differences. */
export type Personality = 'rxe' | 'siw' | 'mlx';

/**
 * Those that are there to be tested with. Sanitizers are slow, and watch memory: there the two extremes show what there is to see, of which
 * one flushes late and the other at once, and the third lies between them.
 */
export const ALL_PERSONALITIES: readonly Personality[] =
  isSanitized && !inFull ? ['rxe', 'siw'] : ['rxe', 'siw', 'mlx'];

/**
 * Those that a test is run with which does the same under sanitizers: where such a run follows (`VERBMQ_SANITIZED_NEXT`, of
 * scripts/test/parts.mjs), the two extremes are left to that.
 */
export const TESTED_PERSONALITIES: readonly Personality[] =
  process.env.VERBMQ_SANITIZED_NEXT === undefined ? ALL_PERSONALITIES : ['mlx'];

/** A place where things can be held back until they are released. */
export type HoldPoint = 'send-completions' | 'receive-completions' | 'cq-events' | 'cm-events' | 'hardware';

/** Verbs objects that the code under test has made and not given back. */
export type ObjectKind = (typeof OBJECT_KINDS)[number];
const OBJECT_KINDS = [
  'context',
  'pd',
  'mr',
  'mw',
  'cq',
  'qp',
  'srq',
  'comp-channel',
  'cm-channel',
  'cm-id',
  'pinned-bytes',
] as const;

/** What memory is registered for, with the numbers of verbs.h (ibv_access_flags). */
const ACCESS = { deviceWrites: 1, peerWrites: 2, peerReads: 4, peerAdds: 8 } as const;
export type Access = keyof typeof ACCESS;

export type Counter =
  | 'cq-overruns'
  | 'rnr-answers'
  | 'rnr-wait-us'
  | 'retries'
  | 'flushed'
  | 'send-chains'
  | 'receive-chains'
  | 'inline'
  | 'signalled'
  | 'sends'
  | 'reads'
  | 'writes'
  | 'atomics'
  | 'cq-events'
  | 'lost-cq-events'
  | 'cm-events'
  | 'async-events'
  | 'contexts-reused'
  | 'closed-devices'
  | 'busy';

/** Events of rdma_cm, with the numbers of rdma_cma.h. */
export const CmEvent = {
  addrResolved: 0,
  addrError: 1,
  routeResolved: 2,
  routeError: 3,
  connectRequest: 4,
  connectResponse: 5,
  connectError: 6,
  unreachable: 7,
  rejected: 8,
  established: 9,
  disconnected: 10,
  deviceRemoval: 11,
  multicastJoin: 12,
  multicastError: 13,
  addrChange: 14,
  timewaitExit: 15,
} as const;

/** Where an id of rdma_cm is; `cm_state` in the simulation. */
export type CmState =
  | 'address-resolved'
  | 'route-resolved'
  | 'connecting'
  | 'accepted'
  | 'connected'
  | 'disconnected'
  | 'listening';

/** Asynchronous events, with the numbers of verbs.h. */
export const AsyncEvent = {
  completionQueueError: 0,
  queuePairFatal: 1,
  queuePairRequestError: 2,
  queuePairAccessError: 3,
  communicationEstablished: 4,
  deviceFatal: 8,
  portActive: 9,
  portError: 10,
  lidChange: 11,
  pkeyChange: 12,
  subnetManagerChange: 13,
  clientReregister: 17,
  gidChange: 18,
} as const;

/** Statuses of completions, with the numbers of verbs.h. */
export const CompletionStatus = {
  localLength: 1,
  localProtection: 4,
  flushed: 5,
  remoteAccess: 10,
  remoteOperation: 11,
  retriesExceeded: 12,
  receiverNotReady: 13,
  fatal: 19,
  newerThanThisCode: 31,
} as const;

type Call = (library: string, name: string, ...values: (string | number)[]) => number;

/**
 * The simulated device of this process: one for all transports that open `libraries`. Names that the simulation does
 * not know throw, so that no fault is forgotten by misspelling.
 */
export class SimulatedDevice {
  /** For the option `libraries` of RdmaTransport and probeRdma. */
  readonly libraries: { readonly ibverbs: string; readonly rdmacm: string };
  /** The addon through which it is controlled. */
  readonly control: string;
  /** What kind of device it is taken for. */
  personality: Personality = 'rxe';
  readonly #call: Call;

  constructor(library: string, control: string) {
    this.control = control;
    this.libraries = { ibverbs: library, rdmacm: library };
    this.#call = (createRequire(import.meta.url)(control) as { call: Call }).call;
  }

  /** Forgets all faults and settings, and behaves like this kind of device from now on. */
  reset(personality: Personality): void {
    this.personality = personality;
    this.#do('reset', personality);
  }
  set(setting: string, value: number): void {
    this.#do('set', setting, value);
  }
  get(setting: string): number {
    return this.#do('get', setting);
  }

  /** Lets `times` calls fail (-1: all from then on) after `skip` that succeed. */
  failCall(symbol: string, errno: number, { skip = 0, times = 1 } = {}): void {
    this.#do('fail_call', symbol, skip, times, errno);
  }
  calls(symbol: string): number {
    return this.#do('calls', symbol);
  }

  hold(point: HoldPoint, queuePair = 0): void {
    this.#do('hold', point, queuePair);
  }
  release(point: HoldPoint, queuePair = 0): void {
    this.#do('release', point, queuePair);
  }
  held(point: HoldPoint): number {
    return this.#do('held', point);
  }

  dropCqEvents(count: number): void {
    this.#do('drop_cq_events', count);
  }
  dropCmEvents(type: number, count = 1): void {
    this.#do('drop_cm_events', type, count);
  }
  replaceCmEvent(type: number, other: number, status: number): void {
    this.#do('replace_cm_event', type, other, status);
  }
  /** @returns how many ids were told: those in that state */
  raiseCmEvent(type: number, status = 0, state: CmState = 'connected'): number {
    return this.#do('raise_cm_event', state, type, status);
  }
  /** Of the oldest queue pair or completion queue, or of the device, as the type demands. Nothing else happens. */
  raiseAsyncEvent(type: number): void {
    this.#do('raise_async_event', type);
  }

  receiverNotReady(count: number): void {
    this.#do('receiver_not_ready', count);
  }
  /** Lets a send complete with this status, after `skip` that work. */
  failWork(status: number, skip = 0): void {
    this.#do('fail_work', skip, status);
  }

  remove(): void {
    this.#do('remove_device');
  }
  restore(): void {
    this.#do('restore_device');
  }
  setPort(active: boolean): void {
    this.#do('set_port', active ? 1 : 0);
  }

  live(kind: ObjectKind): number {
    return this.#do('live', kind);
  }
  /** The kinds of which something is left, with how many. */
  leftOver(): Partial<Record<ObjectKind, number>> {
    const entries = OBJECT_KINDS.map((kind) => [kind, this.live(kind)] as const);
    return Object.fromEntries(entries.filter(([, count]) => count !== 0));
  }
  /** How many registered pieces of memory may be used so. */
  regions(access: Access): number {
    return this.#do('regions', ACCESS[access]);
  }
  count(what: Counter): number {
    return this.#do('count', what);
  }

  #do(name: string, ...values: (string | number)[]): number {
    return this.#call(this.libraries.ibverbs, name, ...values);
  }
}

/**
 * The simulated device, built when it is not, with sanitizers when the addon has them. Call it at the top of a test
 * file, before the first transport opens its libraries.
 */
export async function simulatedDevice(personality: Personality): Promise<SimulatedDevice> {
  const { library, control } = await build({ sanitizer: isSanitized ? 'asan' : 'none' });
  const device = new SimulatedDevice(library, control);
  device.reset(personality);
  return device;
}

/**
 * Declares tests on the simulated device, or, on a machine that cannot build it, one that is skipped and says why.
 * To be awaited at the top of a test file.
 */
export async function onSimulatedDevice(
  personality: Personality,
  declare: (device: SimulatedDevice) => void,
): Promise<void> {
  const missing = await obstacle();
  if (missing !== undefined) {
    describe('simulated RDMA', () => test.skip(`all of it (skipped: ${missing})`, () => {}));
    return;
  }
  declare(await simulatedDevice(personality));
}

/** Takes the personality for one test, and leaves no fault behind. */
export function resetForTest(device: SimulatedDevice, personality: Personality): void {
  device.reset(personality);
  onTestFinished(() => device.reset(personality));
}
