/**
 * The command line of `npm run guest`.
 */

/**
 * @typedef {object} GuestOptions
 * @property {'rxe' | 'siw' | 'none'} driver RDMA driver of the guest.
 * @property {1 | 2} hosts Number of guests.
 * @property {number | undefined} memlockKib Limit of locked memory in KiB; undefined: unlimited.
 * @property {number} timeoutSeconds Time limit of the command; the boot has one of its own.
 * @property {string | undefined} out Directory of the machine that receives the command's files.
 * @property {number} memoryMib Memory of each guest.
 * @property {boolean} quick Emulation of a processor that copies by words.
 * @property {string[]} environment Names of further variables to hand on, or NAME=VALUE.
 * @property {string[]} command
 */

export const usage = `usage: npm run guest -- [options] -- COMMAND [ARGUMENT...]

  --driver rxe|siw|none  RDMA driver: Soft-RoCE (default), Soft-iWARP, or no RDMA device
  --hosts 1|2            guests; with 2, COMMAND runs in both, VERBMQ_GUEST_ROLE says a or b (default 1)
  --memlock KIB          limit of locked memory (default unlimited)
  --timeout SECONDS      time limit of COMMAND (default 900); booting has one of its own
  --out DIR              where the files that COMMAND leaves in $VERBMQ_GUEST_OUT go
  --memory MIB           memory of each guest (default 4096, with 2 hosts 2048)
  --quick                without KVM: a processor that copies by words, which is quicker to emulate; not for measurements
  --env NAME[=VALUE]     a further environment variable for COMMAND (repeatable)

Exit status: COMMAND's own; 124 when the time limit ended it; 125 when the guest could not be prepared, did not boot or died.`;

/** A mistake in the command line. */
export class UsageError extends Error {}

/** @param {string} name @param {string | undefined} text @param {number} least */
function wholeNumber(name, text, least) {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least) {
    throw new UsageError(`${name} needs a whole number of at least ${least}, not ${text ?? 'nothing'}`);
  }
  return value;
}

/**
 * @template {string} T
 * @param {string} name @param {string | undefined} text @param {readonly T[]} choices
 */
function oneOf(name, text, choices) {
  const choice = choices.find((candidate) => candidate === text);
  if (choice === undefined) {
    throw new UsageError(`${name} is one of ${choices.join(', ')}, not ${text ?? 'nothing'}`);
  }
  return choice;
}

/**
 * @param {string[]} args Arguments after the script's name.
 * @returns {GuestOptions}
 * @throws {UsageError}
 */
export function parseOptions(args) {
  /** @type {GuestOptions} */
  const options = {
    driver: 'rxe',
    hosts: 1,
    memlockKib: undefined,
    timeoutSeconds: 900,
    out: undefined,
    memoryMib: 0,
    quick: false,
    environment: [],
    command: [],
  };
  const rest = [...args];
  while (rest.length > 0 && rest[0] !== '--' && rest[0].startsWith('-')) {
    const [, name, inline] = /** @type {RegExpExecArray} */ (/^([^=]*)(?:=(.*))?$/s.exec(rest[0]));
    rest.shift();
    if (name === '--quick' && inline === undefined) {
      options.quick = true;
      continue;
    }
    const value = inline ?? rest.shift();
    if (name === '--driver') {
      options.driver = oneOf(name, value, /** @type {const} */ (['rxe', 'siw', 'none']));
    } else if (name === '--hosts') {
      options.hosts = oneOf(name, value, ['1', '2']) === '2' ? 2 : 1;
    } else if (name === '--memlock') {
      options.memlockKib = wholeNumber(name, value, 0);
    } else if (name === '--timeout') {
      options.timeoutSeconds = wholeNumber(name, value, 1);
    } else if (name === '--memory') {
      options.memoryMib = wholeNumber(name, value, 512);
    } else if (name === '--out' && value) {
      options.out = value;
    } else if (name === '--env' && value) {
      options.environment.push(value);
    } else {
      throw new UsageError(`unknown option, or one without its value: ${name}`);
    }
  }
  if (rest[0] === '--') {
    rest.shift();
  }
  if (rest.length === 0) {
    throw new UsageError('no COMMAND');
  }
  options.command = rest;
  options.memoryMib ||= options.hosts === 2 ? 2048 : 4096;
  return options;
}
