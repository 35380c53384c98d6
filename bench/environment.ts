import { arch, cpus, release, totalmem, type } from 'node:os';

/** Where something was measured. Nothing that names the machine. */
export interface Environment {
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly system: string;
  readonly date: string;
  /** `machine`, or `guest`: a virtual machine with an RDMA device in software. */
  readonly where: 'machine' | 'guest';
}

export function describeEnvironment(where: Environment['where']): Environment {
  return {
    node: process.version,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGib: Math.round((totalmem() / 1024 ** 3) * 10) / 10,
    system: `${type()} ${/^[\d.]+/.exec(release())?.[0] ?? ''} ${arch()}`,
    date: new Date().toISOString(),
    where,
  };
}
