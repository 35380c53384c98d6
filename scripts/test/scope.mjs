/**
 * How much of everything is run. `npm test` runs once what shows something by itself. With `VERBMQ_TEST=full` it also runs what is the
 * same code once more: on the other driver, on the other Node, over another transport in the guest.
 */

/** @param {NodeJS.ProcessEnv} environment @returns {boolean} @throws when it asks for something else */
export function asksForAll({ VERBMQ_TEST: asked }) {
  if (asked !== undefined && asked !== 'full') {
    throw new Error(`VERBMQ_TEST is "${asked}": it may be "full", or not be there`);
  }
  return asked === 'full';
}

export const inFull = asksForAll(process.env);
