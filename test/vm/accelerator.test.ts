import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { chooseAccelerator } from './accelerator.mjs';

let image: string;
beforeEach(() => {
  image = mkdtempSync(join(tmpdir(), 'verbmq-accelerator-'));
});
afterEach(() => rmSync(image, { recursive: true }));

/** KVM that opens or not, and on which a guest answers or not; counts the trials. */
function kvm(opens: boolean, works: boolean) {
  const trials: string[] = [];
  return {
    trials,
    opens: () => opens,
    answers: async (of: string) => {
      trials.push(of);
      return works;
    },
  };
}

const said: string[] = [];
const log = (text: string) => said.push(text);

test('KVM that cannot be opened is not tried', async () => {
  const none = kvm(false, true);
  expect(await chooseAccelerator(image, log, none)).toBe('tcg');
  expect(none.trials).toEqual([]);
});

test.each([
  [true, 'kvm', 'a trial guest answered on KVM'],
  [false, 'tcg', 'no answer from a trial guest on KVM: software emulation from now on'],
])(
  'KVM that opens is used only when a guest answers on it (%s), and that is tried once',
  async (works, chosen, words) => {
    const machine = kvm(true, works);
    said.length = 0;
    expect(await chooseAccelerator(image, log, machine)).toBe(chosen);
    expect(await chooseAccelerator(image, log, machine)).toBe(chosen);
    expect(machine.trials).toEqual([image]);
    expect(said).toEqual([words]);
  },
);

test('the verdict of another machine does not count', async () => {
  await chooseAccelerator(image, log, kvm(true, false));
  const file = join(image, 'kvm-verdict.json');
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), machine: 'another' }));
  const machine = kvm(true, true);
  expect(await chooseAccelerator(image, log, machine)).toBe('kvm');
  expect(machine.trials).toEqual([image]);
});
