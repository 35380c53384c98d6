/**
 * A vitest reporter that writes one line of JSON for each outcome into the file that VERBMQ_TEST_RECORD names, as it
 * happens: what a run did is known also when it dies in the middle. Unlike vitest's own JSON report it holds the reasons
 * of skipped tests, and the errors that belong to no test. results.mjs reads it.
 */

import { appendFileSync } from 'node:fs';

export default class Recorder {
  #path;

  constructor() {
    const path = process.env.VERBMQ_TEST_RECORD;
    if (path === undefined) {
      throw new Error('VERBMQ_TEST_RECORD must name the file to write');
    }
    this.#path = path;
    this.#write({ type: 'begin' });
  }

  /** @param {import('vitest/node').TestCase} test */
  onTestCaseResult(test) {
    const result = test.result();
    this.#write({
      type: 'test',
      name: nameOf(test),
      state: result.state,
      reason: result.state === 'skipped' ? (result.note ?? reasonInTitle(test.name)) : undefined,
      details: describe(result.errors),
    });
  }

  /** A hook of a suite failed: its tests did not run, or what they used was not tidied up. @param {import('vitest/node').TestSuite} suite */
  onTestSuiteResult(suite) {
    this.#failure(nameOf(suite), suite.errors());
  }

  /** The file failed as such, by an import for instance. @param {import('vitest/node').TestModule} module */
  onTestModuleEnd(module) {
    this.#failure(module.relativeModuleId, module.errors());
  }

  /**
   * @param {readonly import('vitest/node').TestModule[]} _modules
   * @param {readonly import('vitest/node').SerializedError[]} errors that no test caught
   * @param {string} reason
   */
  onTestRunEnd(_modules, errors, reason) {
    // The same error may come hundreds of times from one loop.
    for (const details of new Set(errors.map((error) => describe([error])))) {
      this.#write({ type: 'test', name: 'an error outside of the tests', state: 'failed', details });
    }
    this.#write({ type: 'end', reason });
  }

  /** @param {string} name @param {readonly unknown[]} errors */
  #failure(name, errors) {
    if (errors.length > 0) {
      this.#write({ type: 'test', name, state: 'failed', details: describe(errors) });
    }
  }

  /** @param {object} line */
  #write(line) {
    appendFileSync(this.#path, `${JSON.stringify(line)}\n`);
  }
}

/** @param {import('vitest/node').TestCase | import('vitest/node').TestSuite} task */
const nameOf = (task) => `${task.module.relativeModuleId} > ${task.fullName}`;

/** What is skipped when it is declared has no note: its title says why. @param {string} title */
const reasonInTitle = (title) => /\(skipped: (.*)\)$/.exec(title)?.[1] ?? 'no reason given in the source';

/** @param {readonly any[] | undefined} errors */
const describe = (errors) =>
  errors
    ?.map((error) => [messageOf(error), error.diff, ...ownFrames(error)].filter(Boolean).join('\n'))
    .join('\n');

/** @param {any} error */
const messageOf = (error) =>
  error?.message === undefined ? String(error) : `${error.name ?? 'Error'}: ${error.message}`;

/** The frames of the stack that are not of the tools. @param {any} error @returns {string[]} */
const ownFrames = (error) =>
  String(error?.stack ?? '')
    .split('\n')
    .filter((line) => /^\s+at /.test(line) && !/node_modules|node:internal/.test(line));
