/**
 * KVM, or software emulation. That `/dev/kvm` opens says little: there are machines where a guest kernel hangs on it.
 * So KVM is used only after a guest has answered on it. The verdict is kept beside the image.
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Machine } from './machine.mjs';
import { temporaryDirectory } from './temporary-directory.mjs';

const trialLimitMs = 15_000;

/** What the verdict depends on: a cache may move to another machine with its home directory. */
const thisMachine = () => `${os.hostname()} ${os.release()} ${os.cpus()[0]?.model}`;

/** @returns {boolean} whether `/dev/kvm` can be opened by us */
function kvmOpens() {
  try {
    fs.closeSync(fs.openSync('/dev/kvm', 'r+'));
    return true;
  } catch {
    return false;
  }
}

/** @param {string} image @returns {Promise<boolean>} whether a guest on KVM answers */
async function trial(image) {
  const directory = temporaryDirectory();
  const settings = { image, directory, memoryMib: 512, kernelWords: ['verbmq.trial'], ports: [] };
  const machine = await Machine.start({ ...settings, accelerator: 'kvm' });
  const stop = new AbortController();
  try {
    await Promise.race([
      machine.ended,
      delay(trialLimitMs, undefined, { signal: stop.signal }).catch(() => {}),
    ]);
    return machine.console.text.includes('verbmq-trial-answer');
  } finally {
    stop.abort();
    await machine.kill();
  }
}

/**
 * @param {string} image @param {(text: string) => void} log
 * @param {{opens: () => boolean, answers: (image: string) => Promise<boolean>}} [kvm] what there is of it; for tests
 * @returns {Promise<'kvm' | 'tcg'>}
 */
export async function chooseAccelerator(image, log, kvm = { opens: kvmOpens, answers: trial }) {
  if (!kvm.opens()) {
    return 'tcg';
  }
  const file = join(image, 'kvm-verdict.json');
  const machine = thisMachine();
  if (fs.existsSync(file)) {
    const verdict = JSON.parse(fs.readFileSync(file, 'utf8'));
    if (verdict.machine === machine) {
      return verdict.works ? 'kvm' : 'tcg';
    }
  }
  const works = await kvm.answers(image);
  log(
    works
      ? 'a trial guest answered on KVM'
      : 'no answer from a trial guest on KVM: software emulation from now on',
  );
  const draft = `${file}.${process.pid}`;
  fs.writeFileSync(draft, JSON.stringify({ machine, works }));
  fs.renameSync(draft, file);
  return works ? 'kvm' : 'tcg';
}
