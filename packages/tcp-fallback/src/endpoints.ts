import { lookup } from 'node:dns/promises';
import { lstat, rm } from 'node:fs/promises';
import net, { type Server } from 'node:net';
import { dirname } from 'node:path';
import type { HostAddress, PathAddress, ResolvedAddress } from '@verbmq/core';
import { VerbmqError } from '@verbmq/core';
import { listenError, unlessAborted } from '@verbmq/core/transport-kit';
import { describeEndpoint } from './link.js';
import { withPathLock } from './path-lock.js';

/** What is listened on. */
export interface Endpoints {
  readonly servers: readonly Server[];
  /** As it was asked for, with the port that was given. */
  readonly address: HostAddress | PathAddress;
}

/** The pending connections that the kernel keeps; it cuts the number to its own limit (net.core.somaxconn). */
const BACKLOG = 4096;

/** Where port 0 is asked for on several addresses, the port that the first one got may be taken on the others. */
const PORT_ATTEMPTS = 10;

/** sun_path is 108 bytes with its final NUL (unix(7)). */
const MAX_PATH_BYTES = 107;

/**
 * Listens on an address: on all of them where a name has several. `create` makes the servers. Does not wait for a resolver when `signal`
 * aborts, and rejects with its reason.
 */
export async function openEndpoints(
  address: ResolvedAddress,
  create: () => Server,
  signal: AbortSignal,
): Promise<Endpoints> {
  try {
    return 'path' in address ? await openPath(address.path, create) : await openHost(address, create, signal);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw listenError(describeEndpoint(address), error);
  }
}

/** Stops listening; the endpoint is free when it returns. Connections live on. */
export function closeEndpoints(servers: readonly Server[]): void {
  for (const server of servers) server.close();
}

async function openHost(
  { host, port }: HostAddress,
  create: () => Server,
  signal: AbortSignal,
): Promise<Endpoints> {
  const hosts = net.isIP(host) !== 0 ? [host] : await unlessAborted(resolveAll(host), signal);
  for (let attempt = 1; ; attempt++) {
    try {
      return await openAll(host, hosts, port, create);
    } catch (error) {
      const mayRetry = port === 0 && hosts.length > 1 && codeOf(error) === 'EADDRINUSE';
      if (!mayRetry || attempt === PORT_ATTEMPTS) throw error;
    }
  }
}

async function openAll(
  name: string,
  hosts: readonly string[],
  port: number,
  create: () => Server,
): Promise<Endpoints> {
  const servers: Server[] = [];
  let bound = port;
  let missing: unknown;
  try {
    for (const host of hosts) {
      const server = create();
      try {
        await listen(server, { host, port: bound, backlog: BACKLOG });
      } catch (error) {
        // A name may have an address of a family that this machine has switched off.
        if (codeOf(error) !== 'EADDRNOTAVAIL' && codeOf(error) !== 'EAFNOSUPPORT') throw error;
        missing = error;
        continue;
      }
      servers.push(server);
      bound = (server.address() as net.AddressInfo).port;
    }
    if (servers.length === 0) throw missing;
  } catch (error) {
    closeEndpoints(servers);
    throw error;
  }
  return { servers, address: { host: name, port: bound } };
}

async function resolveAll(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true });
  return [...new Set(found.map(({ address }) => address))];
}

/** @throws VerbmqError `ERR_VERBMQ_INVALID_ADDRESS` for a path that no Unix socket can have: Node would cut it off, or find no such file. */
export function checkPath(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_PATH_BYTES) {
    throw new VerbmqError(
      'ERR_VERBMQ_INVALID_ADDRESS',
      `the path of a Unix socket has at most ${MAX_PATH_BYTES} bytes; this one has ${bytes}: choose a shorter directory`,
    );
  }
}

async function openPath(path: string, create: () => Server): Promise<Endpoints> {
  checkPath(path);
  const server = create();
  const open = (): Promise<void> => listen(server, { path, backlog: BACKLOG });
  if (path.startsWith('\0')) await open();
  else {
    // Between finding a file stale and replacing it, and between bind and listen, when a file looks stale, nobody else may find it.
    await withPathLock(path, async (lock) => {
      try {
        await open();
      } catch (error) {
        await assertDirectory(path, error);
        if (codeOf(error) !== 'EADDRINUSE' || lock === 'held' || !(await isStale(path))) throw error;
        await rm(path, { force: true });
        await open();
      }
    });
  }
  return { servers: [server], address: { path } };
}

/** Node reports a directory that is missing as EACCES, as it does one that may not be written. */
async function assertDirectory(path: string, cause: unknown): Promise<void> {
  if (codeOf(cause) !== 'EACCES') return;
  const missing = await lstat(dirname(path)).then(
    () => false,
    (error: unknown) => codeOf(error) === 'ENOENT',
  );
  if (!missing) return;
  throw new VerbmqError(
    'ERR_VERBMQ_LISTEN_FAILED',
    `cannot listen on the Unix socket ${path}: its directory does not exist; create it`,
    { cause },
  );
}

/** Whether a socket file was left behind by a process that is gone: it is one, and nobody answers. */
async function isStale(path: string): Promise<boolean> {
  const file = await lstat(path).catch(() => undefined);
  if (!file?.isSocket()) return false;
  return new Promise((resolve) => {
    const probe = net.connect({ path });
    probe.on('connect', () => {
      probe.destroy();
      resolve(false);
    });
    probe.on('error', (error) => resolve(codeOf(error) === 'ECONNREFUSED'));
  });
}

function listen(server: Server, options: net.ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
