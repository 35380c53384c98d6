import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { connect } from 'verbmq';
import { afterEach, describe, expect, test } from 'vitest';

const COMMAND = fileURLToPath(new URL('../bin/verbmq.js', import.meta.url));

describe('the verbmq command', () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  function start(...args: string[]): ChildProcess {
    const child = spawn(process.execPath, [COMMAND, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    children.push(child);
    return child;
  }

  async function run(...args: string[]): Promise<{ status: number; out: string; err: string }> {
    const child = start(...args);
    let out = '';
    let err = '';
    child.stdout?.on('data', (chunk) => {
      out += chunk;
    });
    child.stderr?.on('data', (chunk) => {
      err += chunk;
    });
    const [status] = (await once(child, 'close')) as [number];
    return { status, out, err };
  }

  /** Starts a service and answers with its URLs when it listens on all of them. */
  async function serve(...urls: string[]): Promise<{ service: ChildProcess; urls: string[] }> {
    const service = start('serve', ...urls);
    const heard: string[] = [];
    for await (const line of createInterface({ input: service.stdout as NodeJS.ReadableStream })) {
      const url = /^listening on (.*)$/.exec(line)?.[1];
      if (url !== undefined) heard.push(url);
      if (heard.length === urls.length) break;
    }
    service.stdout?.resume();
    return { service, urls: heard };
  }

  test('probe says that TCP works, and of RDMA either its devices or cause and remedy', async () => {
    const { status, out } = await run('probe', '--json');
    expect(status).toBe(0);
    const { tcp, rdma } = JSON.parse(out);
    expect(tcp).toEqual({ available: true, details: {} });
    if (rdma.available) expect(rdma.details.devices.length).toBeGreaterThan(0);
    else
      expect(rdma).toEqual({
        available: false,
        code: expect.any(String),
        reason: expect.any(String),
        remedy: expect.any(String),
      });
  });

  test('ping measures round trips to what serve serves, over TCP and a Unix socket', async () => {
    const path = join(tmpdir(), `verbmq-command-${process.pid}.sock`);
    const { service, urls } = await serve('tcp://127.0.0.1:0', `unix://${path}`);
    try {
      for (const url of urls) {
        const { status, out } = await run('ping', url, '--seconds', '1', '--bytes', '100', '--json');
        expect(status).toBe(0);
        const result = JSON.parse(out);
        const [kind] = url.split(':');
        expect(result).toMatchObject({ url, bytes: 100, path: { kind, changes: 0 } });
        expect(result.roundTrips).toBeGreaterThan(0);
        expect(result.p50Micros).toBeGreaterThan(0);
        expect(result.p99Micros).toBeGreaterThanOrEqual(result.p50Micros);
      }
      service.kill('SIGINT');
      const [status] = await once(service, 'close');
      expect(status).toBe(0);
    } finally {
      await rm(path, { force: true });
    }
  });

  test('ping of a verbmq:// address says which way it took, and why not the fast one', async () => {
    const { urls } = await serve('verbmq://127.0.0.1:0');
    const { status, out } = await run('ping', urls[0] as string, '--seconds', '1');
    expect(status).toBe(0);
    expect(out).toMatch(/ round trips of 64 B over (rdma|tcp \([a-z-]+(, the peer says [a-z-]+)?\))[,:]/);
  });

  test('ping of more bytes than there is memory for says so, and ends', async () => {
    const { urls } = await serve('tcp://127.0.0.1:0');
    const { status, err } = await run('ping', urls[0] as string, '--bytes', String(2 ** 53 - 1));
    expect(status).toBe(1);
    expect(err).toMatch(/^verbmq: .*\n$/);
  });

  test('serve ends when it is told to, and its connections with it, in order', async () => {
    const { service, urls } = await serve('tcp://127.0.0.1:0');
    const connection = await connect(urls[0] as string);
    service.kill('SIGTERM');
    expect(await connection.closed).toMatchObject({ graceful: true, initiator: 'remote' });
    const [status] = await once(service, 'close');
    expect(status).toBe(0);
  });

  test('an address where nobody listens is one sentence with its code, and status 1', async () => {
    const { service, urls } = await serve('tcp://127.0.0.1:0');
    service.kill('SIGTERM');
    await once(service, 'close');
    const { status, err } = await run('ping', urls[0] as string);
    expect(status).toBe(1);
    expect(err).toMatch(
      /^verbmq: cannot connect to .* nobody listens there.* \[ERR_VERBMQ_CONNECT_FAILED\]\n$/,
    );
  });

  test('wrong words get the usage and status 2', async () => {
    for (const args of [[], ['serve'], ['ping', 'a', 'b'], ['dance']]) {
      const { status, err } = await run(...args);
      expect(status).toBe(2);
      expect(err).toContain('verbmq serve URL');
    }
  });

  test('options that make no sense are refused in words', async () => {
    const { status, err } = await run('ping', 'tcp://127.0.0.1:9', '--bytes', 'many');
    expect(status).toBe(1);
    expect(err).toContain('--bytes takes a whole number, not many');
  });
});
