// What strangers can make the RDMA listener of an auto listener pin.
import { AutoTransport } from '@verbmq/core/auto';
import { RdmaTransport } from '@verbmq/native';
import { TcpTransport } from '@verbmq/tcp-fallback';
import { onTestFinished, test } from 'vitest';
import { failure } from '../support/expectations.js';
import { abortAfterTest } from '../support/pair.js';
import { onSimulatedDevice, resetForTest } from '../support/simulated-device.js';

const FAST_ADDRESS = { host: '127.0.0.1', port: 7471 };

await onSimulatedDevice('rxe', (device) => {
  test.each(['transport', 'listener'] as const)(
    'handshakes on the fast path are bounded by maxHandshakes of the %s',
    async (whose) => {
      resetForTest(device, 'rxe');
      const rdma = (): RdmaTransport => new RdmaTransport({ libraries: device.libraries });
      const bound = { maxHandshakes: 3 };
      const server = new AutoTransport({
        ...(whose === 'transport' && bound),
        base: new TcpTransport(),
        fast: rdma(),
      });
      const client = rdma();
      onTestFinished(async () => {
        await Promise.all([client.close(), server.close()]);
      });
      const options = { fastAddresses: [FAST_ADDRESS], ...(whose === 'listener' && bound) };
      await server.listen('verbmq://127.0.0.1:0', options);
      device.hold('receive-completions'); // so that no first frame is found
      for (let n = 0; n < 3; n++) abortAfterTest(await client.connect(FAST_ADDRESS));
      await failure(client.connect(FAST_ADDRESS), 'ERR_VERBMQ_OVERLOADED');
    },
  );
});
