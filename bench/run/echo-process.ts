/**
 * The program of an echo server or client: `node echo-process.js CONTESTANT`. It does what its parent asks for (see
 * protocol.ts) and ends when it was told to stop, or when its parent is gone.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createContestant, isNodeContestant } from '../contestants/index.js';
import { Clients } from './clients.js';
import type { Commands, Reply, Request } from './protocol.js';

const name = process.argv[2] ?? '';
if (!isNodeContestant(name)) throw new Error(`there is no contestant ${name}`);
const contestant = await createContestant(name);
const clients = new Clients();

const commands: {
  [Name in keyof Commands]: (argument: Commands[Name]['argument']) => Promise<Commands[Name]['answer']>;
} = {
  async listen() {
    return (await contestant.listen()).address;
  },
  async connect({ address, connections }) {
    await clients.connect(contestant, address, connections);
    return undefined;
  },
  load: (spec) => clients.load(spec),
  async cpu() {
    const { user, system } = process.cpuUsage();
    return user + system + (contestant.helperCpuMicros?.() ?? 0);
  },
  async memory() {
    collectGarbage();
    return process.memoryUsage().rss;
  },
  async stop() {
    await clients.close();
    await contestant.close();
    return undefined;
  },
};

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
}

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
