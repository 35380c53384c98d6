import { TcpTransport } from '@verbmq/tcp-fallback';
import { expect, it, onTestFinished } from 'vitest';
import { failure } from '../../../test/support/expectations.js';
import { nextConnection } from '../../../test/support/pair.js';

it('a message of which a part has left when its memory is transferred ends the connection, and its send is told why', async () => {
  const transport = new TcpTransport({ receiveWindowBytes: 64 * 1024 });
  onTestFinished(() => transport.close());
  const listener = await transport.listen('tcp://127.0.0.1:0');
  const accepted = nextConnection(listener);
  const client = await transport.connect(listener.url);
  const server = await accepted;
  const data = new Uint8Array(1024 * 1024);
  const sent = client.send(data);
  const behind = failure(client.send(new Uint8Array(10)), 'ERR_VERBMQ_ABORTED');
  await new Promise((resolve) => process.nextTick(resolve)); // the first write
  structuredClone(data.buffer, { transfer: [data.buffer] });
  await expect(sent).rejects.toThrow(TypeError);
  await behind;
  expect((await client.closed).error).toMatchObject({ code: 'ERR_VERBMQ_ABORTED' });
  expect((await server.closed).error).toMatchObject({ code: 'ERR_VERBMQ_PEER_ABORTED' });
});
