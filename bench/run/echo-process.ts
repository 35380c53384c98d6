/**
 * The program of an echo server or client: `node echo-process.js CONTESTANT`. It does what its parent asks for (see
 * protocol.ts) and ends when it was told to stop, or when its parent is gone.
 */
import type { EchoClient } from '../contestants/contestant.js';
import { isNodeContestant, NODE_CONTESTANTS } from '../contestants/index.js';
import { Load, type LoadSpec } from './load.js';
import type { Commands, Reply, Request } from './protocol.js';

const name = process.argv[2] ?? '';
if (!isNodeContestant(name)) throw new Error(`there is no contestant ${name}`);
const contestant = NODE_CONTESTANTS[name]();
const load = new Load();
let client: EchoClient | undefined;

const commands: {
  [Name in keyof Commands]: (argument: Commands[Name]['argument']) => Promise<Commands[Name]['answer']>;
} = {
  async listen() {
    return (await contestant.listen()).address;
  },
  async connect(address) {
    client = await contestant.connect(address, load.handlers);
    return undefined;
  },
  async load(spec: LoadSpec) {
    if (client === undefined) throw new Error('load before connect');
    return await load.run(client, spec);
  },
  async cpu() {
    const { user, system } = process.cpuUsage();
    return user + system;
  },
  async stop() {
    await client?.close();
    await contestant.close();
    return undefined;
  },
};

function reply(message: Reply): void {
  process.send?.(message);
}

let stopping = false;
process.on('message', async (request: Request) => {
  stopping = request.command === 'stop';
  try {
    const command = commands[request.command] as (argument: unknown) => Promise<unknown>;
    reply({ ok: true, answer: await command(request.argument) });
  } catch (error) {
    reply({ ok: false, error: describe(error) });
  }
  if (stopping) process.disconnect(); // with nothing left open, the process ends by itself
});
process.on('disconnect', () => {
  if (!stopping) process.exit(1);
});

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? error.message : `${code}: ${error.message}`;
}
