import { VerbmqError } from '../contract/errors.js';

/** What to do about the system errors that users meet when they connect. */
const CONNECT_REMEDIES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nobody listens there; start the server, or check the port',
  ENOENT: 'there is no such socket file or host; check the name',
  ENOTFOUND: 'the host name cannot be resolved; check the name and the resolver',
  EHOSTUNREACH: 'there is no route to the host; check the address and the network',
  ENETUNREACH: 'there is no route to the network; check the address and the network',
  EACCES: 'permission was denied; check the rights of the socket file',
  ETIMEDOUT: 'the host does not answer; check the address and firewalls',
};

const LISTEN_REMEDIES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens there; choose another port, or stop it',
  EADDRNOTAVAIL: 'this machine has no such address; check the host',
  EACCES: 'permission was denied; ports below 1024 and foreign directories need rights',
  ENOTFOUND: 'the host name cannot be resolved; check the name',
};

/** A failed attempt to connect, in words that tell what to do. */
export function connectError(where: string, cause: unknown): VerbmqError {
  if (cause instanceof VerbmqError) return cause;
  return new VerbmqError(
    'ERR_VERBMQ_CONNECT_FAILED',
    sentence(`cannot connect to ${where}`, cause, CONNECT_REMEDIES),
    { cause },
  );
}

/** A failed attempt to listen, in words that tell what to do. */
export function listenError(where: string, cause: unknown): VerbmqError {
  if (cause instanceof VerbmqError) return cause;
  const code = systemCode(cause) === 'EADDRINUSE' ? 'ERR_VERBMQ_ADDRESS_IN_USE' : 'ERR_VERBMQ_LISTEN_FAILED';
  return new VerbmqError(code, sentence(`cannot listen on ${where}`, cause, LISTEN_REMEDIES), { cause });
}

function sentence(what: string, cause: unknown, remedies: Readonly<Record<string, string>>): string {
  const code = systemCode(cause);
  const remedy = code === undefined ? undefined : remedies[code];
  const why = cause instanceof Error ? cause.message || code : String(cause);
  return remedy === undefined ? `${what}: ${why}` : `${what}: ${remedy} (${code})`;
}

/** The system's code; of an attempt at several addresses (an AggregateError), that of the last one. */
function systemCode(cause: unknown): string | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  if ('code' in cause && typeof cause.code === 'string') return cause.code;
  return cause instanceof AggregateError ? systemCode(cause.errors.at(-1)) : undefined;
}
