/**
 * The command line of `npm test`.
 */

/**
 * @typedef {object} TestOptions
 * @property {string[] | undefined} only names of parts; undefined: all
 * @property {boolean} requireGuest that the guest cannot be had is a failure
 */

/**
 * @param {string[]} args
 * @param {string[]} names of the parts
 * @param {NodeJS.ProcessEnv} [environment]
 * @returns {TestOptions | string} a string says what is wrong with them; it is empty when help is asked for
 */
export function parseOptions(args, names, environment = process.env) {
  /** @type {TestOptions} */
  const options = { only: undefined, requireGuest: environment.CI === 'true' };
  const rest = [...args];
  while (rest.length > 0) {
    const [, name, inline] = /** @type {RegExpExecArray} */ (/^([^=]*)(?:=(.*))?$/s.exec(rest.shift() ?? ''));
    if (name === '--require-guest' && inline === undefined) {
      options.requireGuest = true;
    } else if (name === '--only') {
      const chosen = (inline ?? rest.shift() ?? '').split(',');
      const unknown = chosen.find((part) => !names.includes(part));
      if (unknown !== undefined) {
        return `there is no part "${unknown}"`;
      }
      options.only = [...(options.only ?? []), ...chosen];
    } else if (name === '--help') {
      return '';
    } else {
      return `unknown argument ${name}`;
    }
  }
  return options;
}

/** @param {readonly {name: string, title: string}[]} parts */
export function usage(parts) {
  const width = Math.max(...parts.map(({ name }) => name.length));
  return `usage: npm test -- [--only PART[,PART…]] [--require-guest]

  --only PART       only this part (and what prepares for it); repeatable
  --require-guest   that the guest cannot be prepared here is a failure, and no skip; so it is with CI=true

Parts:
${parts.map(({ name, title }) => `  ${name.padEnd(width)}  ${title}`).join('\n')}`;
}
