import { expect, test } from 'vitest';
import { distributionOf } from './distribution.mjs';
import { GuestError } from './guest-error.mjs';

/** The lines of an os-release file that count, as the distributions write them. */
const debian = (version: string) =>
  `PRETTY_NAME="Debian GNU/Linux ${version}"\nNAME="Debian GNU/Linux"\nVERSION_ID="${version}"\nID=debian\n`;
const ubuntu = (version: string) =>
  `PRETTY_NAME="Ubuntu ${version} LTS"\nNAME="Ubuntu"\nVERSION_ID="${version}"\nID=ubuntu\nID_LIKE=debian\n`;

test.each([
  ['12', ['gcc-12', 'libelf1']],
  ['13', ['gcc-14', 'libelf1t64', 'zstd']],
])('Debian %s: its kernel, and what builds siw for it', (version, tools) => {
  const distribution = distributionOf(debian(version), 'x64');
  expect(distribution.kernelPackage).toBe('linux-image-amd64');
  expect(distribution.modulePackages).toEqual([]);
  expect(distribution.buildsSiw).toBe(true);
  expect(distribution.buildPackages).toEqual(expect.arrayContaining([...tools, 'make', 'xz-utils']));
});

test.each(['22.04', '24.04'])('Ubuntu %s: its kernel with further modules, siw among them', (version) => {
  const distribution = distributionOf(ubuntu(version), 'x64');
  expect(distribution.kernelPackage).toBe('linux-image-generic');
  expect(distribution.modulePackages).toEqual(['linux-modules', 'linux-modules-extra']);
  expect(distribution.buildsSiw).toBe(false);
  expect(distribution.buildPackages).toEqual(['xz-utils', 'zstd']);
});

test.each([
  ['another release', debian('11'), 'x64', /this is Debian GNU\/Linux 11 on x64$/],
  ['another processor', debian('12'), 'arm64', /this is Debian GNU\/Linux 12 on arm64$/],
  [
    'another distribution',
    'ID=fedora\nVERSION_ID=41\nPRETTY_NAME="Fedora 41"\n',
    'x64',
    /this is Fedora 41 on x64$/,
  ],
  ['no os-release', '', 'x64', /this is a system without os-release on x64$/],
])('%s: what is needed, and what was found', (_, osRelease, architecture, found) => {
  let error: unknown;
  try {
    distributionOf(osRelease, architecture);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(GuestError);
  const { message, exitStatus } = error as GuestError;
  expect(message).toMatch(/needs Debian 12 or 13, or Ubuntu 22\.04 or 24\.04, on x64/);
  expect(message).toMatch(found);
  expect(exitStatus).toBe(125);
});
