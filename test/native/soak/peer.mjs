// The connecting side of a soak in a process of its own. Waits for tasks of its parent, and answers each with what came.
import { RdmaTransport } from '@verbmq/native';
import { settledMemory } from './memory.mjs';
import { Script } from './script.mjs';
import { PATIENT, soakAsClient, Tally } from './sides.mjs';

const script = new Script(JSON.parse(/** @type {string} */ (process.argv[2])));
const transport = new RdmaTransport(PATIENT);
const tally = new Tally();

process.on('disconnect', () => process.exit());
process.on('message', async (/** @type {import('./soak-peer.js').SoakTask} */ { url, messages, first }) => {
  const next = await soakAsClient(transport, url, script, { messages, first, tally });
  process.send?.({ tally, next, memory: await settledMemory() });
});
