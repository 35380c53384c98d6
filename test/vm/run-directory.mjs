/**
 * The directory of one run of one guest: its programs and settings, which the guest reads through the shared root.
 */

import * as fs from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from './temporary-directory.mjs';

/** Variables that the command gets from us when we have them; further ones by `--env`. */
const handedOn = /^(PATH|HOME|LANG|LC_\w+|TZ|CI|NODE_\w+|FORCE_COLOR|NO_COLOR|VERBMQ_\w+|\w*SAN_OPTIONS)$/;

/** @param {string} text @returns {string} a word that a shell reads as exactly this text */
export const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * @param {NodeJS.ProcessEnv} environment
 * @param {string[]} further NAME or NAME=VALUE
 * @returns {string[]} `export` commands
 */
function exports(environment, further) {
  /** @type {Map<string, string>} */
  const variables = new Map();
  for (const [name, value] of Object.entries(environment)) {
    if (handedOn.test(name) && value !== undefined) {
      variables.set(name, value);
    }
  }
  for (const entry of further) {
    const [, name, value] = /** @type {RegExpExecArray} */ (/^([^=]*)(?:=(.*))?$/s.exec(entry));
    const present = value ?? environment[name];
    if (present !== undefined) {
      variables.set(name, present);
    }
  }
  return [...variables].map(([name, value]) => `export ${name}=${quote(value)}`);
}

/**
 * @param {import('./options.mjs').GuestOptions} options
 * @param {'a' | 'b'} role
 * @param {string} endMark
 * @returns {string} the new directory
 */
export function createRunDirectory(options, role, endMark) {
  const directory = temporaryDirectory();
  const write = (/** @type {string} */ name, /** @type {string[]} */ lines) =>
    fs.writeFileSync(join(directory, name), `${lines.join('\n')}\n`);

  for (const name of ['main', 'network']) {
    fs.copyFileSync(
      fileURLToPath(new URL(`guest-${name}.sh`, import.meta.url)),
      join(directory, `${name}.sh`),
    );
  }
  write('config.sh', [
    `GUEST_ROLE=${role}`,
    `GUEST_DRIVER=${options.driver}`,
    `GUEST_HOSTS=${options.hosts}`,
    `GUEST_WANTS_FILES=${options.out === undefined ? 'no' : 'yes'}`,
    `GUEST_END_MARK=${quote(endMark)}`,
  ]);
  // Root ignores the limit of locked memory as long as it has CAP_IPC_LOCK; without it, it may still open the devices.
  const limited = options.memlockKib !== undefined;
  const drop = limited ? 'setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock -- ' : '';
  write('command.sh', [
    'echo $$ >/sys/fs/cgroup/command/cgroup.procs',
    ...exports(process.env, options.environment),
    'export VERBMQ_GUEST=1',
    `export VERBMQ_GUEST_DRIVER=${options.driver}`,
    `export VERBMQ_GUEST_HOSTS=${options.hosts}`,
    `export VERBMQ_GUEST_ROLE=${role}`,
    '. /run/verbmq-guest/environment.sh',
    `ulimit -l ${options.memlockKib ?? 'unlimited'} || exit 125`,
    `cd ${quote(process.cwd())} || exit 125`,
    // A shell's background process starts with these ignored, and could not be interrupted.
    `exec env --default-signal=INT,QUIT ${drop}${options.command.map(quote).join(' ')}`,
  ]);
  return directory;
}
