/**
 * Outcomes, and the counting of them.
 */

/**
 * @typedef {object} Outcome of one test, or of one check that is no test of vitest's
 * @property {string} name
 * @property {'passed' | 'failed' | 'skipped'} state
 * @property {string} [reason] of a skip
 * @property {string} [details] of a failure
 *
 * @typedef {object} PartResult
 * @property {string} name
 * @property {Outcome[]} outcomes never empty
 * @property {number} seconds
 *
 * @typedef {{passed: number, failed: number, skipped: number}} Totals
 */

/** @param {string} name @returns {Outcome} */
export const passed = (name) => ({ name, state: 'passed' });

/** @param {string} name @param {string} details @returns {Outcome} */
export const failed = (name, details) => ({ name, state: 'failed', details });

/** @param {string} name @param {string} reason @returns {Outcome} */
export const skipped = (name, reason) => ({ name, state: 'skipped', reason });

/**
 * The outcomes of a vitest run. A run that died, ran no test, or failed without saying where, is a failure as well:
 * nothing that is missing may look like success.
 *
 * @param {string} run the run's name
 * @param {string | undefined} recording what recorder.mjs wrote; undefined when there is no such file
 * @param {string | undefined} failure how the process failed; undefined when it ended with status 0
 * @param {string} output the end of what it printed
 * @returns {Outcome[]}
 */
export function outcomesOfRun(run, recording, failure, output) {
  /** @type {Outcome[]} */
  const outcomes = [];
  let ended = false;
  for (const line of (recording ?? '').split('\n')) {
    const record = parseLine(line);
    if (record?.type === 'end') {
      ended = true;
    } else if (record?.type === 'test') {
      const { name, state, reason, details } = record;
      outcomes.push({
        name: `${run}: ${name}`,
        // A test that is still pending when it is reported did not finish.
        state: state === 'passed' || state === 'skipped' ? state : 'failed',
        ...(reason === undefined ? {} : { reason }),
        ...(details === undefined ? {} : { details }),
      });
    }
  }
  if (!ended) {
    outcomes.push(
      failed(run, `the run did not come to its end (${failure ?? 'exit status 0'}):\n${lastLines(output)}`),
    );
  } else if (failure !== undefined && !outcomes.some((outcome) => outcome.state === 'failed')) {
    outcomes.push(failed(run, `no test failed, but the run did (${failure}):\n${lastLines(output)}`));
  } else if (outcomes.every((outcome) => outcome.state === 'skipped')) {
    outcomes.push(failed(run, `no test ran: ${outcomes.length} were found, all skipped`));
  }
  return outcomes;
}

/** The last line may be cut where the process was killed. @param {string} line */
function parseLine(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** @param {string} text @param {number} [count] */
export const lastLines = (text, count = 30) => text.trimEnd().split('\n').slice(-count).join('\n');

/** @param {readonly Outcome[]} outcomes @returns {Totals} */
export function count(outcomes) {
  const totals = { passed: 0, failed: 0, skipped: 0 };
  for (const { state } of outcomes) {
    totals[state]++;
  }
  return totals;
}

/** The last line of `npm test`. @param {Totals} totals */
export function totalsLine({ passed, failed, skipped }) {
  const line = `${passed} passed, ${failed} failed`;
  return skipped === 0 ? line : `${line}, ${skipped} skipped`;
}
