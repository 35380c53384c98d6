/**
 * The command line of the bootstrap.
 */

import { BootstrapError } from './bootstrap-error.mjs';
import { buildAddon, buildTypeScript, installDependencies, prepareGuest, preparePeers } from './steps.mjs';

const usage = `usage: npm run bootstrap [-- --guest] [--peers]

Installs the dependencies, compiles the TypeScript, and builds the native addon where a compiler is there.
  --guest   also what the guest needs (npm run guest): system packages and a kernel. Installs packages as root.
  --peers   also what npm run bench -- --peers compares with; as root, nats-server with it`;

const options = ['--guest', '--peers'];

/**
 * @param {string[]} args
 * @returns {Promise<number>} exit status
 */
export async function bootstrapCommand(args) {
  const unknown = args.filter((word) => !options.includes(word));
  if (unknown.length > 0) {
    console.error(unknown.includes('--help') ? usage : `bootstrap: unknown argument ${unknown[0]}\n${usage}`);
    return unknown.includes('--help') ? 0 : 2;
  }
  try {
    if (args.includes('--guest')) {
      // First: the addon's compiler is among the packages.
      await prepareGuest();
    }
    await installDependencies();
    await buildTypeScript();
    await buildAddon({ required: args.includes('--guest') });
    if (args.includes('--peers')) {
      await preparePeers();
    }
    return 0;
  } catch (error) {
    if (error instanceof BootstrapError) {
      console.error(`bootstrap: ${error.message}`);
      return 1;
    }
    throw error;
  }
}
