import { VerbmqError } from './errors.js';

/** An IP endpoint. `host` is a name, an IPv4 or an IPv6 address without brackets; port 0 asks for a free one. */
export interface HostAddress {
  readonly host: string;
  /** 0 to 65,535. */
  readonly port: number;
}

/** A Unix socket. A path that starts with NUL is in Linux's abstract namespace (unix(7)). */
export interface PathAddress {
  readonly path: string;
}

/** What `listen` and `connect` take: an endpoint, a path, or a URL such as `tcp://[::1]:7000` or `unix:///run/a.sock`. */
export type Address = HostAddress | PathAddress | string | URL;

/** The URL schemes that address a verbmq endpoint. `verbmq` leaves the choice of transport to negotiation. */
export const SCHEMES = ['tcp', 'tls', 'unix', 'rdma', 'memory', 'verbmq'] as const;
/** What stands before `://`. */
export type Scheme = (typeof SCHEMES)[number];

/** An address as transports get it. */
export type ResolvedAddress = (HostAddress | PathAddress) & {
  /** Present when the address was given as a URL. */
  readonly scheme?: Scheme;
};

/** Whether an address is that of a Unix socket, or a name in memory. */
export function isPathAddress(address: ResolvedAddress | HostAddress | PathAddress): address is PathAddress {
  return 'path' in address;
}

/**
 * Brings any {@link Address} into one form.
 * @throws TypeError when the argument is not an address at all; RangeError for a port out of range;
 *   VerbmqError `ERR_VERBMQ_INVALID_ADDRESS` for a URL that cannot be understood.
 */
export function parseAddress(address: Address): ResolvedAddress {
  if (typeof address === 'string' || address instanceof URL) return parseUrl(String(address));
  if (typeof address !== 'object' || address === null) {
    throw new TypeError('an address is {host, port}, {path}, or a URL such as tcp://127.0.0.1:7000');
  }
  if ('path' in address) {
    if (typeof address.path !== 'string' || address.path === '') {
      throw new TypeError('address.path must be a string that is not empty');
    }
    return { path: address.path };
  }
  if (typeof address.host !== 'string' || address.host === '') {
    throw new TypeError('address.host must be a string that is not empty');
  }
  return { host: address.host, port: checkPort(address.port) };
}

/** The URL of an address; the inverse of {@link parseAddress}. */
export function formatAddress(scheme: Scheme, address: HostAddress | PathAddress): string {
  if ('path' in address) {
    const { path } = address;
    return path.startsWith('\0') ? `${scheme}://@${encode(path.slice(1))}` : `${scheme}://${encode(path)}`;
  }
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${scheme}://${host}:${address.port}`;
}

function parseUrl(text: string): ResolvedAddress {
  const match = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(text);
  const scheme = match?.[1]?.toLowerCase();
  if (match === null || !isScheme(scheme)) {
    throw invalid(text, `it must start with one of ${SCHEMES.map((known) => `${known}://`).join(', ')}`);
  }
  const rest = match[2] as string;
  if (scheme === 'unix') {
    if (rest === '')
      throw invalid(text, 'the path is missing: unix:///absolute/path, or unix://@name for an abstract one');
    return { scheme, path: rest.startsWith('@') ? `\0${decode(text, rest.slice(1))}` : decode(text, rest) };
  }
  if (scheme === 'memory' && !rest.includes(':')) {
    if (rest === '') throw invalid(text, 'the name is missing: memory://name');
    return { scheme, path: decode(text, rest) };
  }
  const endpoint = /^(?:\[([^\]]+)\]|([^:/?#@[\]]+)):(\d{1,5})\/?$/.exec(rest);
  if (endpoint === null)
    throw invalid(text, `it must look like ${scheme}://host:port, with IPv6 hosts in brackets`);
  const port = Number(endpoint[3]);
  if (port > 65_535) throw invalid(text, 'the port must be at most 65535');
  return { scheme, host: (endpoint[1] ?? endpoint[2]) as string, port };
}

/** Slashes stay readable; all else that has a meaning in URLs is escaped, so that `decode` gives back any path. */
function encode(path: string): string {
  return encodeURIComponent(path).replaceAll('%2F', '/');
}

function decode(text: string, part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw invalid(text, 'the path has an invalid percent escape', cause);
  }
}

function checkPort(port: unknown): number {
  if (typeof port !== 'number') throw new TypeError('address.port must be a number');
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new RangeError(`address.port must be an integer from 0 to 65535, not ${port}`);
  }
  return port;
}

function isScheme(scheme: string | undefined): scheme is Scheme {
  return (SCHEMES as readonly string[]).includes(scheme ?? '');
}

function invalid(text: string, why: string, cause?: unknown): VerbmqError {
  return new VerbmqError(
    'ERR_VERBMQ_INVALID_ADDRESS',
    `the address ${JSON.stringify(text)} cannot be used: ${why}`,
    {
      cause,
    },
  );
}
