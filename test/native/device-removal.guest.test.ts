// A real device that is taken away in the middle of traffic, and put back.
import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const host = process.env.VERBMQ_RDMA_ADDRESS as string;
const reconnector = fileURLToPath(new URL('./children/reconnector.mjs', import.meta.url));

interface Report {
  readonly event: string;
  readonly code?: string;
  readonly message?: string;
  readonly device?: string;
}

function rdmaLink(command: string): Promise<unknown> {
  return promisify(execFile)('rdma', ['link', ...command.split(' ')]);
}

test('rdma link delete in the middle of traffic, and the same device again', async (context) => {
  if (process.env.VERBMQ_GUEST_DRIVER !== 'rxe') {
    return context.skip(
      'only the guest with Soft-RoCE has a device that may be deleted, and an interface for another',
    );
  }
  // librdmacm closes a device that is gone only where there is another one; see docs/rdma-setup.md.
  await rdmaLink('add other type rxe netdev vb');
  onTestFinished(async () => {
    await rdmaLink('delete other');
  });
  const child = fork(reconnector, [host], { execArgv: [] });
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const reports: Report[] = [];
  child.on('message', (report: Report) => reports.push(report));
  const next = async (event: string, count = 1): Promise<Report[]> => {
    await until(() => reports.filter((each) => each.event === event).length >= count);
    return reports.splice(0).filter((each) => each.event === event);
  };

  await next('ready');
  child.send('talk');
  expect(await next('talking')).toMatchObject([{ device: 'rxe0' }]);
  // It returns when nobody has the device open any more, which proves that everything was given back.
  const deleted = rdmaLink('delete rxe0');
  for (const { code, message } of await next('closed', 2)) {
    expect({ code, message }).toEqual({
      code: 'ERR_VERBMQ_CONNECTION_LOST',
      message: 'the RDMA device rxe0 was removed or has failed',
    });
  }
  await deleted;
  child.send('connect');
  expect(await next('refused')).toMatchObject([{ code: 'ERR_VERBMQ_CONNECT_FAILED' }]);

  await rdmaLink('add rxe0 type rxe netdev va');
  const idle = countVerbsObjects();
  child.send('talk');
  expect(await next('talking')).toMatchObject([{ device: 'rxe0' }]);
  child.send('close');
  for (const { code } of await next('closed', 2)) expect(code).toBeUndefined();
  await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(idle));
});
