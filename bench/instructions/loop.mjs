// What JavaScript executes for messages of 64 bytes that go to and fro between two connections, with a loop in the place of the addon. Both ends
// are in this process. `rdma`: two connections over RDMA. `auto`: the same two as the fast path of two connections of auto.
// This is run by count.mjs, in an emulator: it marks the messages that count by two calls of process.getgroups().
import { setImmediate as nextTurn } from 'node:timers/promises';
import { AutoConnection } from '../../packages/core/dist/auto/auto-connection.js';
import { resolveConnectionOptions } from '../../packages/core/dist/contract/options.js';
import { MemoryNetwork, MemoryTransport } from '../../packages/core/dist/memory-transport/index.js';
import { EventKind, SubmissionKind } from '../../packages/native/dist/binding.js';
import { resolveRdmaOptions } from '../../packages/native/dist/options.js';
import { RdmaConnection } from '../../packages/native/dist/rdma-connection.js';
import { RdmaEngine } from '../../packages/native/dist/rdma-engine.js';
import { Slab } from '../../packages/native/dist/slab.js';

const [kind, roundTrips] = [process.argv[2], Number(process.argv[3])];
const WARM_UP_ROUND_TRIPS = 40_000;
const MESSAGE_BYTES = 64;
const MAX_MESSAGE_BYTES = 1024 * 1024;
const HANDLE = 65_537;
const [COMPLETED, LIMIT] = [0, 1];

/** The boundary of the addon, whose arrays the loop below reads and fills. */
class LoopEngine {
  constructor(arrays, dispatch) {
    Object.assign(this, arrays);
    this.dispatch = dispatch;
  }
  flush() {}
}

const addon = {
  Engine: LoopEngine,
  layout: { headerBytes: 16, gateWords: 8, controlAreaBytes: 4096, controlReceiveSlots: 4, pageBytes: 4096 },
  preferHugePages() {},
  offsetOfPage: () => 0,
};
const rdmaOptions = resolveRdmaOptions({});
const options = resolveConnectionOptions({ heartbeatIntervalMs: 0 });

function makeEnd(direction) {
  const engine = new RdmaEngine(addon, rdmaOptions);
  const slab = new Slab(addon, rdmaOptions, MAX_MESSAGE_BYTES);
  const description = {
    device: 'loop',
    iwarp: false,
    atomics: true,
    forkHidesPages: false,
    inlineBytes: 0,
    peerSlotBytes: rdmaOptions.slotBytes,
    peerMaxMessageBytes: MAX_MESSAGE_BYTES,
    peerWindowBytes: 4 * MAX_MESSAGE_BYTES,
    readDepth: 16,
    secret: new Uint8Array(32),
    peerSecret: new Uint8Array(32),
    local: { host: '127.0.0.1', port: 1 },
    remote: { host: '127.0.0.1', port: 2 },
  };
  const connection = new RdmaConnection({ engine, handle: HANDLE, slab, direction, options, description });
  engine.register(connection);
  slab.gate[LIMIT] = slab.dataSlots;
  return { engine, native: engine.native, slab, connection, nextSlot: 0 };
}

/** As the addon and the devices would: takes what one end has submitted, and delivers it to the other. */
function move(from, to) {
  const { submissions, ring } = from.native;
  const { events } = to.native;
  let delivered = 0;
  for (let at = 0; at < 4 * ring[0]; at += 4) {
    if (submissions[at] !== SubmissionKind.send) continue;
    const bytes = submissions[at + 3];
    const source = (from.slab.sendBase + submissions[at + 2] * rdmaOptions.slotBytes) / 4;
    const slot = to.nextSlot;
    to.nextSlot = (slot + 1) % to.slab.dataSlots;
    const target = to.slab.receives.startOf(slot) / 4;
    for (let word = 0; word < bytes / 4; word++)
      to.slab.receives.words[target + word] = from.slab.words[source + word];
    const event = 4 * delivered++;
    events[event] = EventKind.message;
    events[event + 1] = HANDLE;
    events[event + 2] = slot;
    events[event + 3] = bytes;
    from.slab.gate[COMPLETED]++;
    from.slab.gate[LIMIT]++;
  }
  ring[0] = 0;
  to.native.ring[1] = delivered;
  to.native.dispatch();
  to.native.ring[1] = 0;
}

async function overAuto(client, server) {
  const transport = new MemoryTransport({ network: new MemoryNetwork() });
  const listener = await transport.listen('memory://base');
  const accepted = new Promise((resolve) => {
    listener.onConnection(resolve);
  });
  const bases = [await transport.connect(listener.url), await accepted];
  const role = { negotiation() {}, baseLost() {}, fastLost() {}, moved() {}, ended() {} };
  const pair = [client, server].map((fast, index) => {
    const base = bases[index];
    const connection = new AutoConnection({
      direction: fast.direction,
      options,
      maxMessageBytes: MAX_MESSAGE_BYTES,
      localAddress: base.localAddress,
      remoteAddress: base.remoteAddress,
      base,
      windowBytes: 4 * MAX_MESSAGE_BYTES,
      reason: 'negotiating',
      peerReason: undefined,
      requiresFast: false,
      makeRole: () => role,
    });
    connection.adoptFast(1, fast);
    return connection;
  });
  pair[0].session.propose(1);
  while (pair.some(({ session }) => session.path !== 1 || !session.flowing)) await nextTurn();
  return pair;
}

const ends = [makeEnd('out'), makeEnd('in')];
const fast = ends.map(({ connection }) => connection);
const [client, server] = kind === 'auto' ? await overAuto(...fast) : fast;
const message = new Uint8Array(MESSAGE_BYTES);
let left = 0;

server.onMessage(({ data }) => {
  if (!server.trySend(data)) throw new Error('there is no room for an answer');
});
client.onMessage(() => {
  if (--left > 0 && !client.trySend(message)) throw new Error('there is no room');
});

/** Begins in a turn of its own, so that what is sent first does not wait for others. */
async function begin(count) {
  left = count;
  client.trySend(message);
  await nextTurn();
}

function goOn() {
  while (left > 0) {
    move(ends[0], ends[1]);
    move(ends[1], ends[0]);
  }
}

for (let done = 0; done < WARM_UP_ROUND_TRIPS; done += 2000) {
  await begin(2000);
  goOn();
  await nextTurn();
}
await begin(roundTrips);
process.getgroups();
goOn();
process.getgroups();
process.exit(0);
