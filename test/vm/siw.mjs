import * as fs from 'node:fs';
import { join } from 'node:path';
import { unpackedPath } from './kernel-packages.mjs';
import { runCommand } from './run-command.mjs';

/**
 * Builds siw, which Debian's kernel packages leave out, from the kernel's own source.
 * @param {string} work as `unpackKernel` has filled it
 * @param {string} release
 * @returns {string} path of siw.ko
 */
export function buildSiw(work, release) {
  const sources = unpackedPath(work, 'src');
  const headers = join(sources, `linux-headers-${release}`);
  // The headers are not where their package would install them.
  const makefile = join(headers, 'Makefile');
  fs.writeFileSync(makefile, fs.readFileSync(makefile, 'utf8').replaceAll('/usr/src/', `${sources}/`));

  const [archive] = fs.readdirSync(sources).filter((name) => /^linux-source-.*\.tar\.xz$/.test(name));
  const driver = 'drivers/infiniband/sw/siw';
  runCommand('tar', [
    ...['-xJf', join(sources, archive), '-C', work, '--wildcards', `*/${driver}/*`],
    ...['--strip-components=1'],
  ]);
  const siw = join(work, driver);
  // Its types need not be known to BPF: that would take a further tool.
  const settings = ['CONFIG_RDMA_SIW=m', 'CONFIG_DEBUG_INFO_BTF_MODULES='];
  runCommand('make', ['-C', headers, `M=${siw}`, ...settings, '-j2', 'modules']);
  const module = join(siw, 'siw.ko');
  runCommand('strip', ['--strip-debug', module]);
  return module;
}
