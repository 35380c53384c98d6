import { VerbmqTransport, type VerbmqTransportOptions } from 'verbmq';
import { onTestFinished } from 'vitest';
import { asAuto, QUICK } from './auto-pair.js';
import { abortAfterTest, nextConnection } from './pair.js';
import type { SimulatedDevice } from './simulated-device.js';

/** Both ends of a connection as users have it: upon TCP, with RDMA on the simulated device. */
export async function autoSimulatedPair(device: SimulatedDevice, options: VerbmqTransportOptions = {}) {
  const make = (): VerbmqTransport => {
    const transport = new VerbmqTransport({
      ...QUICK,
      fastTimeoutMs: 500,
      maxMessageBytes: 1 << 20,
      ...options,
      rdma: { libraries: device.libraries },
    });
    onTestFinished(() => transport.close());
    return transport;
  };
  const listener = await make().listen('verbmq://127.0.0.1:0');
  const accepted = nextConnection(listener);
  const client = asAuto(abortAfterTest(await make().connect(listener.url)));
  const server = asAuto(abortAfterTest(await accepted));
  return { client, server };
}
