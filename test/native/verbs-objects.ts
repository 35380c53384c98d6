import { execFileSync } from 'node:child_process';

/** The tool is no part of the test: under a sanitizer it would take seconds. */
const { LD_PRELOAD, ...env } = process.env;

/**
 * How many objects of each kind the kernel holds for all processes on the RDMA devices of this machine. Contexts (`ctx`) are not
 * among them: librdmacm keeps the one that it has of each device for as long as a process lives.
 */
export interface VerbsObjects {
  readonly pd: number;
  readonly cq: number;
  readonly qp: number;
  readonly cm_id: number;
  readonly mr: number;
  readonly srq: number;
}

export function countVerbsObjects(): VerbsObjects {
  const sums = { pd: 0, cq: 0, qp: 0, cm_id: 0, mr: 0, srq: 0 };
  const devices = JSON.parse(
    execFileSync('rdma', ['-j', 'resource', 'show'], { env, encoding: 'utf8' }),
  ) as Record<keyof VerbsObjects, number>[];
  for (const device of devices) {
    for (const kind of Object.keys(sums) as (keyof VerbsObjects)[]) sums[kind] += device[kind] ?? 0;
  }
  return sums;
}
