import { channel } from 'node:diagnostics_channel';

/**
 * The channels of `node:diagnostics_channel` on which verbmq tells what happens. Publishing costs nothing while
 * nobody has subscribed. docs/observing.md lists them with those of the layers above.
 *
 * | channel | published when | message |
 * |---|---|---|
 * | `verbmq:listener:open` | a listener is ready | `{ listener }` |
 * | `verbmq:listener:close` | it has closed | `{ listener }` |
 * | `verbmq:connection:open` | a connection is usable | `{ connection, direction: 'in' \| 'out' }` |
 * | `verbmq:connection:close` | it has ended | `{ connection, info }` |
 * | `verbmq:connect:fail` | `connect` has failed | `{ transport, address, error }` |
 * | `verbmq:device:notice` | an RDMA device that is in use reports something | `{ transport, device, event, port }` |
 */
export const channels = {
  listenerOpen: channel('verbmq:listener:open'),
  listenerClose: channel('verbmq:listener:close'),
  connectionOpen: channel('verbmq:connection:open'),
  connectionClose: channel('verbmq:connection:close'),
  connectFail: channel('verbmq:connect:fail'),
  deviceNotice: channel('verbmq:device:notice'),
} as const;
