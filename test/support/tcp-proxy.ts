import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A TCP cable between a client and a server in one process. */
export interface TcpProxy {
  readonly port: number;
  /** How many connections have gone through it. */
  readonly connections: number;
  /** Ends the connections that there are; new ones go through. */
  breakOnce(): void;
  /** Ends them, and refuses new ones. */
  cut(): void;
}

export async function tcpProxy(port: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((near) => {
    connections++;
    const far = connect(port, '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.setNoDelay(true);
      one.pipe(other);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const breakOnce = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const cut = (): void => {
    server.close();
    breakOnce();
  };
  onTestFinished(cut);
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections;
    },
    breakOnce,
    cut,
  };
}
