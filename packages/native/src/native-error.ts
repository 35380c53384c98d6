import { type ErrorCode, VerbmqError } from '@verbmq/core';
import type { NativeFailure } from './binding.js';

/** What to do about each reason for which RDMA cannot be used here. */
export const REMEDIES: Readonly<Record<string, string>> = {
  'library-missing':
    'install the RDMA libraries (Debian and Ubuntu: apt-get install libibverbs1 librdmacm1 ibverbs-providers)',
  'no-device':
    'install an RDMA network card and its driver, or make a software device: modprobe rdma_rxe, then rdma link add rxe0 type rxe netdev INTERFACE',
  'no-permission':
    'let this user open /dev/infiniband/uverbs* and /dev/infiniband/rdma_cm (rdma-core installs a udev rule that gives them mode 0666), or run as root',
  'module-missing': 'load the connection manager: modprobe rdma_ucm',
  memlock:
    'raise the limit of locked memory: `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the systemd unit',
  'no-active-port': 'bring the link up: check the cable, `rdma link`, and `ip link set INTERFACE up`',
  'srq-unsupported':
    'leave out sharedReceiveQueue, or make it smaller: then each connection has receive slots of its own',
  'receive-pool-full':
    'raise sharedReceiveQueue.maxConnections and slots, close connections that are not needed, or release the messages that are kept',
  'no-resources': 'close connections that are not needed, or configure fewer and smaller slots',
  'cm-failed':
    'connect and listen again, which opens it anew; if that fails too, look at the kernel log (dmesg) for rdma_ucm, and load that module again',
};

const CODES: Readonly<Record<string, ErrorCode>> = {
  'addon-missing': 'ERR_VERBMQ_UNAVAILABLE',
  'library-missing': 'ERR_VERBMQ_UNAVAILABLE',
  'module-missing': 'ERR_VERBMQ_UNAVAILABLE',
  'no-device': 'ERR_VERBMQ_UNAVAILABLE',
  'no-permission': 'ERR_VERBMQ_UNAVAILABLE',
  'no-active-port': 'ERR_VERBMQ_UNAVAILABLE',
  memlock: 'ERR_VERBMQ_MEMLOCK',
  'no-resources': 'ERR_VERBMQ_NO_BUFFERS',
  'receive-pool-full': 'ERR_VERBMQ_NO_BUFFERS',
  'srq-unsupported': 'ERR_VERBMQ_UNSUPPORTED',
  'address-in-use': 'ERR_VERBMQ_ADDRESS_IN_USE',
  'invalid-address': 'ERR_VERBMQ_INVALID_ADDRESS',
  unreachable: 'ERR_VERBMQ_CONNECT_FAILED',
  'address-not-available': 'ERR_VERBMQ_CONNECT_FAILED',
  'connect-failed': 'ERR_VERBMQ_CONNECT_FAILED',
  rejected: 'ERR_VERBMQ_REJECTED',
  overloaded: 'ERR_VERBMQ_OVERLOADED',
  version: 'ERR_VERBMQ_VERSION',
  protocol: 'ERR_VERBMQ_PROTOCOL',
  lost: 'ERR_VERBMQ_CONNECTION_LOST',
  'device-lost': 'ERR_VERBMQ_CONNECTION_LOST',
  'peer-aborted': 'ERR_VERBMQ_PEER_ABORTED',
  'remote-access': 'ERR_VERBMQ_REMOTE_ACCESS',
  device: 'ERR_VERBMQ_DEVICE',
  'cm-failed': 'ERR_VERBMQ_CONNECTION_LOST',
};

/** A failure of the addon as an error of verbmq. What the addon throws is the `cause`. */
export function toVerbmqError(failure: unknown, context?: string): VerbmqError {
  if (failure instanceof VerbmqError) return failure;
  const { reason, message } = describeFailure(failure);
  const code = CODES[reason] ?? 'ERR_VERBMQ_DEVICE';
  const remedy = REMEDIES[reason];
  const words = reason === 'peer-aborted' ? `the peer aborted the connection: ${message}` : message;
  return new VerbmqError(
    code,
    `${context === undefined ? '' : `${context}: `}${words}${remedy === undefined ? '' : `; ${remedy}`}`,
    { reason, cause: failure instanceof Error ? failure : undefined },
  );
}

/** What stopped `listen`: an address that is no RDMA device's is the address's fault, not RDMA's. */
export function toListenError(failure: unknown, context: string): VerbmqError {
  if (failure instanceof VerbmqError) return failure;
  const { reason, message, call } = describeFailure(failure);
  if (call === 'rdma_bind_addr' && (reason === 'no-device' || reason === 'address-not-available')) {
    return new VerbmqError(
      'ERR_VERBMQ_LISTEN_FAILED',
      `${context}: no RDMA device of this machine has this address; \`rdma link\` and \`ip address\` show which have`,
      { reason: 'address-not-available', cause: failure },
    );
  }
  const error = toVerbmqError(failure, context);
  if (error.code !== 'ERR_VERBMQ_DEVICE' && error.code !== 'ERR_VERBMQ_CONNECT_FAILED') return error;
  return new VerbmqError('ERR_VERBMQ_LISTEN_FAILED', `${context}: ${message}`, { reason, cause: failure });
}

/** What stopped `connect`, before anything was sent or in the middle of it. */
export function toConnectError(failure: unknown, context: string): VerbmqError {
  if (failure instanceof VerbmqError) return failure;
  const { reason, call } = describeFailure(failure);
  if (reason === 'no-device' && call !== 'rdma_create_event_channel') {
    return new VerbmqError(
      'ERR_VERBMQ_CONNECT_FAILED',
      `${context}: no RDMA device of this machine reaches this address; \`rdma link\` shows what there is`,
      { reason: 'unreachable', cause: failure },
    );
  }
  const error = toVerbmqError(failure, context);
  if (error.code !== 'ERR_VERBMQ_DEVICE' && error.code !== 'ERR_VERBMQ_CONNECTION_LOST') return error;
  return new VerbmqError('ERR_VERBMQ_CONNECT_FAILED', error.message, { reason, cause: failure });
}

/** The addon's own description of a failure; anything else that was thrown is a fault and is thrown on. */
export function describeFailure(failure: unknown): NativeFailure {
  if (typeof failure === 'object' && failure !== null && 'reason' in failure && 'message' in failure) {
    return failure as NativeFailure;
  }
  throw failure;
}
