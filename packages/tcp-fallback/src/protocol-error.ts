import { VerbmqError } from '@verbmq/core';

/** What the peer sent is not the protocol: the connection ends. `what` completes "the peer violated the protocol: …". */
export function protocolError(what: string): VerbmqError {
  return new VerbmqError('ERR_VERBMQ_PROTOCOL', `the peer violated the protocol: ${what}`);
}

/** How foreign protocols begin, and what to do when one of them is met. */
const FOREIGN: readonly (readonly [begins: readonly string[], hint: string])[] = [
  [
    ['GET ', 'POST ', 'PUT ', 'HEAD ', 'OPTIONS ', 'PATCH ', 'DELETE ', 'CONNECT ', 'PRI '],
    'an HTTP request: an HTTP client has the wrong port',
  ],
  [['HTTP/'], 'an HTTP answer: an HTTP server listens on this port'],
  [
    ['\u0016\u0003'],
    'a TLS ClientHello: the peer uses TLS, this listener does not; give it the tls option, or connect without',
  ],
  [['\u0015\u0003'], 'a TLS alert: the peer expects TLS; connect with the tls option'],
  [['SSH-'], 'an SSH banner: an SSH server listens on this port'],
  [['220 ', '220-'], 'the greeting of a mail or FTP server'],
];

/** The bytes with which a connection began are no opening of this protocol. */
export function foreignBytes(bytes: Uint8Array): VerbmqError {
  const first = Buffer.from(bytes.subarray(0, 16));
  const text = first.toString('latin1');
  const hint = FOREIGN.find(([begins]) => begins.some((begin) => text.startsWith(begin)))?.[1];
  return protocolError(
    `it began with the bytes ${first.toString('hex')}, which is no verbmq hello${hint === undefined ? '' : ` but looks like ${hint}`}`,
  );
}
