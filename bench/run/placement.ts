import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * Where a server and its client run: `free` as the scheduler likes; `one-core` both on the same core, where no wake-up
 * crosses cores; `core-each` with a core for each of them.
 */
export const PLACEMENTS = ['free', 'one-core', 'core-each'] as const;
export type Placement = (typeof PLACEMENTS)[number];

export type Role = 'server' | 'client';

/** The command that puts `command` in its place. */
export function placed(command: readonly string[], placement: Placement, role: Role): string[] {
  if (placement === 'free') return [...command];
  const cores = allowedCores();
  const core = placement === 'one-core' || role === 'client' ? cores[0] : cores[1];
  if (core === undefined) throw new Error(`there is no core for the ${role} with placement ${placement}`);
  return ['taskset', '-c', String(core), ...command];
}

/** Why a placement cannot be had here, or `undefined` when it can. */
export function placementProblem(placement: Placement): string | undefined {
  if (placement === 'free') return undefined;
  if (process.platform !== 'linux')
    return `processes are pinned with taskset, which ${process.platform} does not have`;
  if (spawnSync('taskset', ['--version']).status !== 0) return 'taskset (of util-linux) is not installed';
  if (placement === 'core-each' && allowedCores().length < 2) return 'there is only one core';
  return undefined;
}

function allowedCores(): number[] {
  const status = readFileSync('/proc/self/status', 'utf8');
  return parseCoreList(/^Cpus_allowed_list:\s*(\S+)/m.exec(status)?.[1] ?? '');
}

/** Reads the kernel's notation of a set of cores, such as `0-2,5` (proc(5)). */
export function parseCoreList(text: string): number[] {
  const cores: number[] = [];
  for (const range of text.split(',')) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(range);
    if (match === null) continue;
    const last = Number(match[2] ?? match[1]);
    for (let core = Number(match[1]); core <= last; core++) cores.push(core);
  }
  return cores;
}
