import { connect, type NatsConnection } from 'nats';
import type { EchoContestant } from '../contestants/contestant.js';
import { NatsServer } from './nats-server.js';

/** No call of the benchmark takes so long: a request without an answer is a failure. */
const TIMEOUT_MS = 60_000;

/**
 * nats: request and reply through a nats-server, which runs beside the server's process and in its place. Its README, for speed:
 * `noAsyncTraces`, and a subscription with a callback instead of an iterator.
 */
export function nats(): EchoContestant {
  let broker: NatsServer | undefined;
  let service: NatsConnection | undefined;
  return {
    async listen() {
      broker = await NatsServer.start();
      service = await connect({ servers: broker.url, noAsyncTraces: true });
      service.subscribe('echo', { callback: (_, message) => void message.respond(message.data) });
      await service.flush();
      return { address: broker.url };
    },

    async connect(address) {
      const connection = await connect({ servers: address, noAsyncTraces: true });
      return {
        call: async (data) => (await connection.request('echo', data, { timeout: TIMEOUT_MS })).data,
        close: () => connection.close(),
      };
    },

    async close() {
      await service?.close();
      await broker?.stop();
    },

    helperCpuMicros: () => broker?.cpuMicros() ?? 0,
  };
}
