import { networkInterfaces } from 'node:os';
import { isVerbmqError } from '@verbmq/core';
import { RdmaTransport } from '@verbmq/native';

const VARIABLE = 'VERBMQ_RDMA_ADDRESS';

/**
 * An address of this machine that an RDMA device serves: the one that the environment names, or else the first that
 * RDMA can listen on. It is put into the environment, so that processes started from here on use the same.
 * `undefined` when no address will do.
 */
export async function findRdmaHost(): Promise<string | undefined> {
  const named = process.env[VARIABLE];
  if (named !== undefined && named !== '') return named;
  const addresses = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ internal, scopeid }) => !internal && !scopeid); // a link-local address is no use without its zone
  for (const { address } of addresses) {
    if (await canListen(address)) {
      process.env[VARIABLE] = address;
      return address;
    }
  }
  return undefined;
}

/** The address that {@link findRdmaHost} found, in this process or in the one that started it. */
export function rdmaHost(): string {
  const host = process.env[VARIABLE];
  if (host === undefined) throw new Error(`${VARIABLE} must name an address of an RDMA device`);
  return host;
}

async function canListen(host: string): Promise<boolean> {
  await using transport = new RdmaTransport();
  try {
    await transport.listen({ host, port: 0 });
    return true;
  } catch (error) {
    if (isVerbmqError(error)) return false; // no RDMA device has this address
    throw error;
  }
}
