/**
 * The addon under AddressSanitizer and UndefinedBehaviorSanitizer: the environment of such a run, and its verdict.
 *
 * Node itself is not instrumented. So the sanitizers' libraries are loaded before it, and of the leaks that are found
 * at the end of a process only those count that the addon allocated, by itself or through a library: V8 and Node leave a
 * good deal to the system on purpose, also while the addon calls them.
 */

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { failed, passed } from './results.mjs';

const logName = 'sanitizer';

/**
 * A library of the compiler that builds the addon.
 * @param {string} name
 */
const compilerLibrary = (name) =>
  execFileSync(process.env.CXX ?? 'g++', [`-print-file-name=${name}`], { encoding: 'utf8' }).trim();

/**
 * @param {string} directory where the reports of the sanitizers go
 * @returns {Record<string, string>} for a run of Node
 */
export function sanitizerEnvironment(directory) {
  const log = `log_path=${join(directory, logName)}`;
  return {
    VERBMQ_ADDON: 'asan',
    // For the processes in which tests run and what these start; vitest itself has no part of the addon, and would be much slower.
    // libstdc++ as well: the sanitizer looks for the function that throws before the addon brings it.
    VERBMQ_TEST_PRELOAD: ['libasan.so', 'libstdc++.so.6'].map(compilerLibrary).join(' '),
    // Leaks are judged here and not by the exit status; see above.
    LSAN_OPTIONS: 'exitcode=0',
    // Memory that cannot be had is no fault: there are tests that ask for more than there is.
    ASAN_OPTIONS: `detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1:${log}`,
    UBSAN_OPTIONS: `print_stacktrace=1:halt_on_error=1:${log}`,
  };
}

/** Frames of our own code in a stack: the addon, and the simulated device that it is tested with. */
const addonFrame = /build-asan\/|\/cpp\/(verbs|engine|napi)\/|\/simulated-verbs\//;

/**
 * @param {string} directory where the sanitizers' reports came to
 * @returns {import('./results.mjs').Outcome[]} a failure for each report, or one outcome that says there was none
 */
export function sanitizerOutcomes(directory) {
  const reports = readdirSync(directory)
    .filter((name) => name.startsWith(`${logName}.`))
    .flatMap((name) => faultsOf(readFileSync(join(directory, name), 'utf8')));
  return reports.length === 0
    ? [passed('sanitizers: no fault')]
    : reports.map((text, index) => failed(`sanitizers: fault ${index + 1}`, text));
}

/** Said of memory that cannot be had; see ASAN_OPTIONS. */
const refusal = /^==\d+==WARNING: AddressSanitizer failed to allocate .*\n?/gm;

/**
 * @param {string} report of one process
 * @returns {string[]} what is to be held against the addon
 */
export function faultsOf(report) {
  const text = report.replace(refusal, '');
  const leaks = text.search(/==\d+==ERROR: LeakSanitizer/);
  const before = (leaks === -1 ? text : text.slice(0, leaks)).trim();
  const blocks = leaks === -1 ? [] : text.slice(leaks).split(/\n\s*\n/);
  return [
    ...(before.replace(/[=\s]/g, '') === '' ? [] : [before]),
    ...blocks.filter((block) => /leak of \d+ byte/.test(block) && allocatedByUs(block)),
  ];
}

/** A frame in Node's program, or in the library that distributions make of it. */
const nodeFrame = /\((\S*\/)?(node|libnode\.so[.\d]*)\+0x[0-9a-f]+\)/;

/** Whether our code comes before Node's in the stack of an allocation. @param {string} leak */
function allocatedByUs(leak) {
  const frames = leak.split('\n').filter((line) => /^\s*#\d+ /.test(line));
  const first = frames.find((frame) => addonFrame.test(frame) || nodeFrame.test(frame));
  return first !== undefined && addonFrame.test(first);
}
