import {
  Client,
  credentials,
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServiceError,
} from '@grpc/grpc-js';
import type { EchoContestant } from '../contestants/contestant.js';

/** A message is its bytes: nothing has to be encoded, which is the least that gRPC can do. */
const asItIs = (data: Buffer): Buffer => data;
const method: MethodDefinition<Buffer, Buffer> = {
  path: '/bench.Echo/Echo',
  requestStream: false,
  responseStream: false,
  requestSerialize: asItIs,
  requestDeserialize: asItIs,
  responseSerialize: asItIs,
  responseDeserialize: asItIs,
};

/**
 * grpc-js: unary calls. The performance guide of gRPC: one channel and one stub, used again for every call.
 */
export function grpc(): EchoContestant {
  let server: Server | undefined;
  return {
    async listen() {
      server = new Server();
      server.addService(
        { echo: method },
        {
          echo: (call: { request: Buffer }, callback: (error: null, answer: Buffer) => void) =>
            callback(null, call.request),
        },
      );
      const started = server;
      const port = await new Promise<number>((resolve, reject) => {
        started.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
          error === null ? resolve(bound) : reject(error),
        );
      });
      return { address: `127.0.0.1:${port}` };
    },

    async connect(address) {
      const client = new Client(address, credentials.createInsecure());
      const metadata = new Metadata();
      return {
        call: (data) =>
          new Promise((resolve, reject) => {
            const request = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
            client.makeUnaryRequest(
              method.path,
              asItIs,
              asItIs,
              request,
              metadata,
              (error: ServiceError | null, answer?: Buffer) =>
                error === null ? resolve(answer!) : reject(error),
            );
          }),
        async close() {
          client.close();
        },
      };
    },

    async close() {
      server?.forceShutdown();
    },
  };
}
