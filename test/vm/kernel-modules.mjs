/**
 * The modules that the guest loads: found in the kernel's packages with all that they depend on, in loading order.
 */

import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { decompress } from './decompress.mjs';
import { GuestError } from './guest-error.mjs';

/** Modules in loading order, by group; their dependencies are added. */
const moduleGroups = {
  base: [
    'virtio_pci',
    'virtio_net',
    'virtio_console',
    'virtio-rng',
    '9p',
    '9pnet_virtio',
    'overlay',
    'veth',
    'sch_netem',
    'tcp_diag',
  ],
  rdma: ['crc32_generic', 'crc32-pclmul', 'crc32c_generic', 'libcrc32c', 'ib_uverbs', 'rdma_ucm', 'ib_umad'],
  rxe: ['rdma_rxe', 'smc', 'smc_diag'],
  siw: ['siw'],
};

/**
 * Checksums, which the drivers ask for by what they do: no module depends on these. Newer kernels have them in other
 * places; where one lacks that is needed, the guest has no RDMA device and says so.
 */
const optional = /^(lib)?crc32/;

/** Names on the disk have either character. @param {string} name */
const canonical = (name) => name.replaceAll('-', '_');

/**
 * @param {string} tree directory `lib/modules/RELEASE`
 * @returns {Map<string, string>} path of each module by its name
 */
function modulePaths(tree) {
  return new Map(
    fs
      .readdirSync(join(tree, 'kernel'), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.ko(\.\w+)?$/.test(path))
      .map((path) => [canonical(basename(path).replace(/\.ko.*$/, '')), join(tree, 'kernel', path)]),
  );
}

/** @param {string} tree @returns {Set<string>} the names of those modules that are part of the kernel itself */
function builtInModules(tree) {
  const paths = fs.readFileSync(join(tree, 'modules.builtin'), 'utf8').trim().split('\n');
  return new Set(paths.map((path) => canonical(basename(path, '.ko'))));
}

/** @param {Buffer} module not compressed @returns {string[]} names of the modules that it depends on */
function dependenciesOf(module) {
  // The words of the section .modinfo: NAME=VALUE, each with a zero byte after it.
  const [, names] = /\0depends=([^\0]*)\0/.exec(module.toString('latin1')) ?? [];
  return names ? names.split(',').map(canonical) : [];
}

/**
 * Copies the modules, and writes the list of each group.
 * @param {string} tree directory `lib/modules/RELEASE`
 * @param {string} target receives `NAME.ko` and `GROUP.list`
 * @throws {GuestError} when the kernel lacks a module
 */
export function collectModules(tree, target) {
  const paths = modulePaths(tree);
  const builtIn = builtInModules(tree);

  const inOrder = (/** @type {string[]} */ names, /** @type {Set<string>} */ loaded) => {
    /** @type {string[]} */
    const order = [];
    const add = (/** @type {string} */ name) => {
      if (loaded.has(name) || builtIn.has(name)) {
        return;
      }
      loaded.add(name);
      const path = paths.get(name);
      if (path) {
        const module = decompress(fs.readFileSync(path));
        dependenciesOf(module).forEach(add);
        fs.writeFileSync(join(target, `${name}.ko`), module);
        order.push(`${name}.ko`);
      } else if (!optional.test(name)) {
        throw new GuestError(`the kernel ${basename(tree)} has no module ${name}`);
      }
    };
    names.map(canonical).forEach(add);
    return order;
  };
  const writeList = (/** @type {string} */ name, /** @type {string[]} */ order) =>
    fs.writeFileSync(join(target, `${name}.list`), order.map((file) => `${file}\n`).join(''));

  /** @type {Set<string>} */
  const base = new Set();
  writeList('base', inOrder(moduleGroups.base, base));
  for (const driver of /** @type {const} */ (['rxe', 'siw'])) {
    writeList(driver, inOrder([...moduleGroups.rdma, ...moduleGroups[driver]], new Set(base)));
  }
}
