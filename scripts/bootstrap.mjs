#!/usr/bin/env node
/**
 * `npm run bootstrap [-- --guest]`: from a fresh checkout to one that runs. See bootstrap/steps.mjs.
 *
 * This file alone is written for Node versions that are too old, so that they get a sentence and no syntax error.
 */

const least = [20, 19];

async function main() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < least[0] || (major === least[0] && minor < least[1])) {
    console.error(
      `verbmq needs Node.js ${least.join('.')} or newer, and this is ${process.version} (${process.execPath}).\n` +
        'Install a newer one: https://nodejs.org/en/download',
    );
    process.exitCode = 1;
    return;
  }
  const { bootstrapCommand } = await import('./bootstrap/command.mjs');
  process.exitCode = await bootstrapCommand(process.argv.slice(2));
}

main();
