import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type Connection, isVerbmqError } from '@verbmq/core';
import { RdmaTransport } from '@verbmq/native';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/until.js';
import { countVerbsObjects } from './verbs-objects.js';

const host = process.env.VERBMQ_RDMA_ADDRESS as string;
const caller = fileURLToPath(new URL('./children/caller.mjs', import.meta.url));

test('kill -9 of the peer in the middle of traffic is one clear error, and gives everything back', async () => {
  const before = countVerbsObjects();
  const transport = new RdmaTransport();
  onTestFinished(() => transport.close());
  const listener = await transport.listen({ host, port: 0 });
  const accepted = new Promise<Connection>((resolve) => listener.onConnection(resolve));
  const child = spawn(process.execPath, [caller, listener.url], { stdio: ['ignore', 'inherit', 'inherit'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });

  const connection = await accepted;
  let received = 0;
  connection.onMessage((message) => {
    received++;
    connection.send(message.data).catch(() => {});
  });
  await until(() => received > 200);
  child.kill('SIGKILL');
  await once(child, 'exit');

  const info = await connection.closed;
  expect(info).toMatchObject({ graceful: false, initiator: 'remote' });
  expect(isVerbmqError(info.error, 'ERR_VERBMQ_CONNECTION_LOST')).toBe(true);
  await expect(connection.send(new Uint8Array(1))).rejects.toMatchObject({ code: 'ERR_VERBMQ_CLOSED' });
  await transport.close();
  await until(() => JSON.stringify(countVerbsObjects()) === JSON.stringify(before));
});
