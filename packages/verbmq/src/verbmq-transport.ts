import { type AutoOptions, AutoTransport, type AutoTransportOptions } from '@verbmq/core/auto';
import { checkOptions } from '@verbmq/core/transport-kit';
import { RdmaTransport, type RdmaTransportOptions } from '@verbmq/native';
import {
  type TcpConnectOptions,
  type TcpListenOptions,
  TcpTransport,
  type TcpTransportOptions,
} from '@verbmq/tcp-fallback';

/** Options of auto connections, and those of the two transports below them. */
export interface VerbmqTransportOptions extends AutoOptions {
  /** What the TCP transport alone takes. */
  readonly tcp?: TcpTransportOptions;
  /** What the RDMA transport alone takes. */
  readonly rdma?: RdmaTransportOptions;
}

/**
 * TCP, TLS or a Unix socket at first, and RDMA where both sides have it: the transport behind `verbmq://` addresses.
 *
 * ```ts
 * const transport = new VerbmqTransport();
 * const connection = await transport.connect('verbmq://10.0.0.1:7000');
 * ```
 */
export class VerbmqTransport extends AutoTransport<TcpListenOptions, TcpConnectOptions> {
  constructor(options: VerbmqTransportOptions = {}) {
    super(partsOf(options));
  }
}

function partsOf(given: VerbmqTransportOptions): AutoTransportOptions<TcpListenOptions, TcpConnectOptions> {
  checkOptions('options', given);
  const { tcp, rdma, ...options } = given;
  checkOptions('tcp', tcp);
  checkOptions('rdma', rdma);
  return {
    ...options,
    base: new TcpTransport({ ...options, ...tcp }),
    fast: options.policy === 'tcp' ? undefined : new RdmaTransport({ ...options, ...rdma }),
  };
}
