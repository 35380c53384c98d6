import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import { json, text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { Host } from './host.js';

type Method = (...args: unknown[]) => Promise<unknown>;

/** Lets the other host do here what it can do there. */
export function serveHost(host: Host, address: string, port: number): Server {
  return createServer((asked, answer) => {
    void (async () => {
      try {
        const method = host[asked.url?.slice(1) as keyof Host] as Method;
        answer.end(JSON.stringify({ value: await method(...((await json(asked)) as unknown[])) }));
      } catch (error) {
        answer.writeHead(500).end(String(error));
      }
    })();
  }).listen(port, address);
}

/** The other host. Every call is a connection of its own, since what was idle may have been cut. */
export function remoteHost(address: string, port: number): Host {
  return new Proxy({} as Host, {
    get:
      (_, name: string) =>
      (...args: unknown[]) =>
        ask(address, port, name, args),
  });
}

async function ask(host: string, port: number, name: string, args: unknown[]): Promise<unknown> {
  for (;;) {
    const asking = request({ host, port, path: `/${name}`, method: 'POST', agent: false });
    asking.end(JSON.stringify(args));
    try {
      const [answer] = await once(asking, 'response');
      const body = await text(answer);
      if (answer.statusCode !== 200) throw new Error(`the other host, told to ${name}: ${body}`);
      return (JSON.parse(body) as { value?: unknown }).value;
    } catch (error) {
      // A host is unreachable for a moment after its cable was plugged in. It has not heard of what was asked.
      if ((error as NodeJS.ErrnoException).syscall !== 'connect') throw error;
      await delay(100);
    }
  }
}
