#!/usr/bin/env node
/**
 * `npm run guest`: runs a command in a virtual machine that has an RDMA device. See README.md.
 *
 * Node's own modules only: this runs before anything is installed or built.
 */

import { chooseAccelerator } from './accelerator.mjs';
import { thisDistribution } from './distribution.mjs';
import { GuestError } from './guest-error.mjs';
import { ensureImage } from './image.mjs';
import { parseOptions, UsageError, usage } from './options.mjs';
import { ensurePackages, runPackages } from './packages.mjs';
import { runSession } from './session.mjs';

const log = (/** @type {string} */ text) => process.stderr.write(`guest: ${text}\n`);

async function main() {
  const options = parseOptions(process.argv.slice(2));
  thisDistribution(); // Says what is needed where the guest cannot be.
  ensurePackages(runPackages, log);
  const image = ensureImage(log);
  const accelerator = await chooseAccelerator(image, log);
  return await runSession(options, image, accelerator, log);
}

// Whoever read our output is gone, and the guest ends with us.
process.stdout.on('error', () => process.exit(141));

try {
  process.exitCode = await main();
} catch (error) {
  if (error instanceof UsageError) {
    log(`${error.message}\n${usage}`);
    process.exitCode = 125;
  } else if (error instanceof GuestError) {
    log(error.message);
    process.exitCode = error.exitStatus;
  } else {
    throw error;
  }
}
