import type { RdmaDetails, RdmaDevice } from '@verbmq/native';
import { RdmaTransport } from '@verbmq/native';
import { TcpTransport } from '@verbmq/tcp-fallback';

/** Prints what each transport says of itself. Exit status 0: an absent transport is an answer, not a failure. */
export async function printProbes(json: boolean): Promise<number> {
  await using tcp = new TcpTransport();
  await using rdma = new RdmaTransport();
  const results = { tcp: await tcp.probe(), rdma: await rdma.probe() };
  if (json) {
    process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
    return 0;
  }
  process.stdout.write('tcp   available, with TLS and Unix sockets\n');
  process.stdout.write(
    results.rdma.available
      ? `rdma  available\n${describeDevices(results.rdma.details)}`
      : `rdma  not available (${results.rdma.code}): ${results.rdma.reason}\n      ${results.rdma.remedy}\n`,
  );
  return 0;
}

function describeDevices({ devices }: RdmaDetails): string {
  return devices.map((device) => `      ${device.name}: ${describeDevice(device)}\n`).join('');
}

function describeDevice(device: RdmaDevice): string {
  if (device.problem !== undefined) return `not usable: ${device.problem.message}`;
  const ports = device.ports.map(({ number, state, linkLayer }) => `port ${number} ${linkLayer} ${state}`);
  const atomics = device.atomics === 'none' ? 'no atomics' : `atomics: ${device.atomics}`;
  return [device.transport, ...ports, atomics, `${device.maxWorkRequests} work requests a queue`].join(', ');
}
