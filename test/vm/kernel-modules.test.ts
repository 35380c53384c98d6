import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { collectModules } from './kernel-modules.mjs';

/** Every module that a group names and that is not a checksum. */
const needed = [
  ...['virtio-net', '9p', '9pnet_virtio', 'overlay', 'veth', 'sch_netem', 'tcp_diag'],
  ...['ib_uverbs', 'rdma_ucm', 'ib_umad', 'rdma_rxe', 'smc', 'smc_diag', 'siw'],
];

let tree: string;
let target: string;
beforeEach(() => {
  tree = mkdtempSync(join(tmpdir(), 'verbmq-modules-test-'));
  target = join(tree, 'target');
  mkdirSync(target);
  mkdirSync(join(tree, 'kernel/drivers'), { recursive: true });
  writeFileSync(
    join(tree, 'modules.builtin'),
    'kernel/drivers/virtio_pci.ko\nkernel/drivers/virtio-rng.ko\nkernel/drivers/virtio_console.ko\n',
  );
});
afterEach(() => {
  rmSync(tree, { recursive: true, force: true });
});

/** A module's file, as far as it is read. */
const moduleBytes = (name: string, dependencies = '') =>
  Buffer.from(`\x7fELF…\0license=GPL\0depends=${dependencies}\0name=${name}\0`);

function write(name: string, dependencies = '') {
  writeFileSync(join(tree, 'kernel/drivers', `${name}.ko`), moduleBytes(name, dependencies));
}

const list = (group: string) =>
  readFileSync(join(target, `${group}.list`), 'utf8')
    .trim()
    .split('\n');

test('modules come after those that they depend on, once; built-in ones and absent checksums are left out', () => {
  needed.forEach((name) => void write(name));
  write('9p', '9pnet,netfs');
  write('9pnet_virtio', '9pnet');
  write('9pnet');
  write('netfs');
  write('rdma_rxe', 'ib_uverbs,udp-tunnel');
  write('udp_tunnel');
  write('crc32-pclmul');

  collectModules(tree, target);

  expect(list('base')).toEqual(
    ['virtio_net', '9pnet', 'netfs', '9p', '9pnet_virtio', 'overlay', 'veth', 'sch_netem', 'tcp_diag'].map(
      (name) => `${name}.ko`,
    ),
  );
  const common = ['crc32_pclmul.ko', 'ib_uverbs.ko', 'rdma_ucm.ko', 'ib_umad.ko'];
  expect(list('rxe')).toEqual([...common, 'udp_tunnel.ko', 'rdma_rxe.ko', 'smc.ko', 'smc_diag.ko']);
  expect(list('siw')).toEqual([...common, 'siw.ko']);
  const files = readdirSync(target).filter((name) => name.endsWith('.ko'));
  expect(new Set(files)).toEqual(new Set([...list('base'), ...list('rxe'), ...list('siw')]));
});

test('compressed modules are unpacked', () => {
  needed.forEach((name) => void write(name));
  const plain = moduleBytes('veth', '');
  rmSync(join(tree, 'kernel/drivers/veth.ko'));
  writeFileSync(
    join(tree, 'kernel/drivers/veth.ko.xz'),
    execFileSync('xz', ['--check=crc32', '-c'], { input: plain }),
  );
  collectModules(tree, target);
  expect(readFileSync(join(target, 'veth.ko'))).toEqual(plain);
});

test('a kernel without a module that is needed is refused', () => {
  needed.filter((name) => name !== 'siw').forEach((name) => void write(name));
  expect(() => collectModules(tree, target)).toThrow(/has no module siw$/);
});
