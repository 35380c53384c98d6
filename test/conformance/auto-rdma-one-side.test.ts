import { onSimulatedDevice } from '../support/simulated-device.js';
import { autoOverSimulatedRdmaSetUp } from '../support/transports/auto.js';
import { tcpSetUp, tlsSetUp } from '../support/transports/tcp.js';
import { conformance } from './index.js';

await onSimulatedDevice('rxe', (device) => {
  conformance(
    'auto upon TCP, RDMA at the client alone',
    autoOverSimulatedRdmaSetUp(device, tcpSetUp(), 'client'),
  );
  conformance(
    'auto upon TLS, RDMA at the server alone',
    autoOverSimulatedRdmaSetUp(device, tlsSetUp(), 'server'),
  );
});
