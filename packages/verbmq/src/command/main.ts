import { parseArgs } from 'node:util';
import { isVerbmqError } from '@verbmq/core';
import { ping } from './ping.js';
import { printProbes } from './probe.js';
import { serve } from './serve.js';

const USAGE = `verbmq: messages over RDMA and TCP

  verbmq probe [--json]             which transports work on this machine, and why not
  verbmq serve URL [URL ...]        an echo service on each URL, until it is interrupted
  verbmq ping URL [--bytes N] [--seconds N] [--json]
                                    round trips to an echo service: percentiles in microseconds

URLs: tcp://host:port  unix:///path  rdma://host:port  verbmq://host:port   (IPv6 hosts in brackets)
      verbmq:// begins on TCP, and moves to RDMA where both sides have it
To compare RDMA with TCP between two machines:  verbmq serve tcp://0.0.0.0:7000 rdma://0.0.0.0:7001  on the one,
verbmq ping tcp://THE-ONE:7000  and  verbmq ping rdma://THE-ONE:7001  on the other.
`;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'boolean', default: false },
      bytes: { type: 'string', default: '64' },
      seconds: { type: 'string', default: '2' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const [command, ...urls] = positionals;
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (command === 'probe' && urls.length === 0) return printProbes(values.json);
  if (command === 'serve' && urls.length > 0) return serve(urls);
  if (command === 'ping' && urls.length === 1) {
    return ping(urls[0] as string, {
      bytes: wholeNumber('--bytes', values.bytes),
      seconds: wholeNumber('--seconds', values.seconds),
      json: values.json,
    });
  }
  process.stderr.write(USAGE);
  return 2;
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0)
    throw new RangeError(`${name} takes a whole number, not ${text}`);
  return value;
}

try {
  process.exitCode = await main();
} catch (error) {
  const code = isVerbmqError(error) ? ` [${error.code}]` : '';
  process.stderr.write(`verbmq: ${error instanceof Error ? error.message : String(error)}${code}\n`);
  process.exitCode = 1;
}
