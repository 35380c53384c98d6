/**
 * The other Node versions that verbmq supports, from npm.
 */

const minute = 60_000;

const supported = ['20', '24'];

/** The versions that this Node is not, by their major number. */
export const otherNodes = supported.filter((version) => version !== process.versions.node.split('.')[0]);

/**
 * @param {import('./context.mjs').PartContext} context
 * @param {string} version major number
 * @returns {Promise<string>} path of that Node
 */
export async function nodeOfVersion(context, version) {
  const { failure, output } = await context.run(
    `get Node ${version}`,
    'npx',
    ['--yes', '--package', `node@${version}`, '--call', 'node -p "process.version + process.execPath"'],
    { timeLimitMs: 5 * minute },
  );
  const path = new RegExp(`^v${version}\\.\\d+\\.\\d+(/.*)$`, 'm').exec(output)?.[1];
  if (failure !== undefined || path === undefined) {
    throw new Error(`Node ${version} cannot be had from npm (${failure ?? 'no such version'}):\n${output}`);
  }
  return path;
}
