// For measurements: the two ends of a connection in processes of their own, each on a core of its own, which do what they are asked.
import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';

/** In such a process: `commands` by name, each asked for with one argument. */
export function answerCommands(commands) {
  const all = { ...commands, cpuMicros };
  process.on('message', async ([command, argument]) =>
    process.send({ answer: await all[command](argument) }),
  );
  process.on('disconnect', () => process.exit());
}

function cpuMicros() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Starts `file` twice with these arguments. */
export function startTwo(file, args) {
  const [server, client] = [1, 0].map((core) => {
    const child = fork(file, args);
    spawnSync('taskset', ['-acp', String(core), String(child.pid)], { stdio: 'ignore' });
    return child;
  });
  const ask = (child, ...request) =>
    new Promise((resolve, reject) => {
      const ended = () => reject(new Error(`a process ended that was asked to ${request[0]}`));
      child.once('exit', ended);
      child.once('message', ({ answer }) => {
        child.off('exit', ended);
        resolve(answer);
      });
      child.send(request);
    });
  return {
    askServer: (...request) => ask(server, ...request),
    askClient: (...request) => ask(client, ...request),
    /** Of both. */
    cpuMicros: async () => (await ask(server, 'cpuMicros')) + (await ask(client, 'cpuMicros')),
    async end() {
      const ended = [client, server].map((child) => once(child, 'exit'));
      for (const child of [client, server]) child.disconnect();
      await Promise.all(ended);
    },
  };
}
