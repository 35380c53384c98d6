import { type ChildProcess, fork } from 'node:child_process';

/** Processes that wait for their task: each is started while the one before it works, because starting takes seconds in the guest. */
const spares = new Map<string, ChildProcess>();

/** A process that runs `program`, has loaded `module`, and waits for its task, a message. It ends with its parent. */
export function takeProcess(program: string, module: string): ChildProcess {
  const key = `${program} ${module}`;
  const child = spares.get(key) ?? startProcess(program, module);
  child.ref();
  child.channel?.ref();
  spares.set(key, startProcess(program, module));
  return child;
}

function startProcess(program: string, module: string): ChildProcess {
  const child = fork(program, [module], { execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  child.unref();
  child.channel?.unref();
  return child;
}
