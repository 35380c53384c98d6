import { spawnSync } from 'node:child_process';
import { GuestError } from './guest-error.mjs';

/**
 * Runs a program to its end.
 * @param {string} command @param {string[]} args @param {import('node:child_process').SpawnSyncOptions} [options]
 * @returns {Buffer} what it printed
 * @throws {GuestError} with the last lines of its output when it fails
 */
export function runCommand(command, args, options) {
  const result = spawnSync(command, args, {
    maxBuffer: 1 << 28,
    stdio: ['pipe', 'pipe', 'pipe'],
    ...options,
  });
  if (result.status !== 0) {
    const why = result.error?.message ?? `${result.stdout}\n${result.stderr}`;
    throw new GuestError(
      `${command} ${args.join(' ')} failed:\n${why.trim().split('\n').slice(-20).join('\n')}`,
    );
  }
  return /** @type {Buffer} */ (result.stdout);
}
