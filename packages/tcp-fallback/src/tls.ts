import type { ConnectionOptions, TlsOptions } from 'node:tls';
import { type ResolvedAddress, VerbmqError } from '@verbmq/core';
import { connectError, describe } from '@verbmq/core/transport-kit';
import { describeEndpoint, type LinkKind } from './link.js';

/**
 * What an address and the `tls` option ask for together.
 * @throws TypeError for a `tls` option that is no object, or that stands beside a Unix socket, `unix://` or `tcp://`.
 */
export function linkKindOf(address: ResolvedAddress, tls: object | undefined): LinkKind {
  if (tls !== undefined && (typeof tls !== 'object' || tls === null)) {
    throw new TypeError(`tls must be an object with the options of node:tls, not ${describe(tls)}`);
  }
  const wantsTls = tls !== undefined || address.scheme === 'tls';
  if ('path' in address) {
    if (wantsTls) throw new TypeError('tls cannot be used on a Unix socket, which file permissions protect');
    return 'unix';
  }
  if (wantsTls && address.scheme === 'tcp') throw new TypeError('tcp:// excludes the tls option: use tls://');
  return wantsTls ? 'tls' : 'tcp';
}

/** @throws VerbmqError `ERR_VERBMQ_TLS` when there is nothing with which a TLS listener could prove who it is. */
export function checkServerIdentity(tls: TlsOptions | undefined): TlsOptions {
  const hasIdentity =
    tls !== undefined &&
    ((tls.key !== undefined && tls.cert !== undefined) ||
      tls.pfx !== undefined ||
      tls.SNICallback !== undefined ||
      tls.secureContext !== undefined ||
      tls.pskCallback !== undefined);
  if (hasIdentity) return tls;
  throw new VerbmqError(
    'ERR_VERBMQ_TLS',
    'a TLS listener needs a certificate: pass tls: { key, cert } (in PEM), or { pfx }',
  );
}

/**
 * What `tls.connect` looks at only when its socket is connecting, which nobody would have if it threw then, or takes for a fault of
 * its own.
 * @throws TypeError
 */
export function checkClientOptions({
  servername,
  session,
  checkServerIdentity: check,
}: ConnectionOptions): void {
  if (servername !== undefined && typeof servername !== 'string')
    throw new TypeError(`tls.servername must be a string, not ${describe(servername)}`);
  if (session !== undefined && typeof session !== 'string' && !(session instanceof Uint8Array))
    throw new TypeError(`tls.session must be a Buffer, not ${describe(session)}`);
  if (check !== undefined && typeof check !== 'function')
    throw new TypeError(`tls.checkServerIdentity must be a function, not ${describe(check)}`);
}

/**
 * Makes something of the `tls` option.
 * @throws VerbmqError `ERR_VERBMQ_TLS` when a key, a certificate or the like cannot be used; `TypeError` and `RangeError` as they are.
 */
export function withUsableIdentity<T>(make: () => T): T {
  try {
    return make();
  } catch (cause) {
    if (cause instanceof TypeError || cause instanceof RangeError) throw cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new VerbmqError(
      'ERR_VERBMQ_TLS',
      `what the tls option brings cannot be used: ${message}; check its key, certificate, authority, passphrase and ciphers`,
      { cause },
    );
  }
}

/** What the codes of certificate errors mean to the user. */
const CERTIFICATE_REMEDIES: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed: pass it as tls.ca if you trust it',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate comes from a private authority: pass that as tls.ca',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the authority of its certificate is unknown: pass it as tls.ca',
  UNABLE_TO_GET_ISSUER_CERT: 'the authority of its certificate is unknown: pass it as tls.ca',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the authority of its certificate is unknown: pass it as tls.ca',
  CERT_HAS_EXPIRED: 'its certificate has expired: renew it, or check the clock',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet: check the clock',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'its certificate is for another name: connect by that name, or set tls.servername',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS there: connect without the tls option',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS there: connect without the tls option',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'the two sides have no TLS version in common: check tls.minVersion',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'it demands a client certificate: pass tls: { key, cert }',
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE: 'it refused the TLS handshake: check client certificate and ciphers',
};

/** System errors that come before TLS has begun. */
const SYSTEM_ERROR = /^E[A-Z0-9]+$/;

/** A failed attempt to connect by TLS: of the system, or of TLS itself. */
export function tlsConnectError(address: ResolvedAddress, cause: Error): VerbmqError {
  const where = describeEndpoint(address);
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
  // A peer that hangs up within the TLS handshake is reported as ECONNRESET, but with these words.
  const isTls = !SYSTEM_ERROR.test(code) || code === 'EPROTO' || /secure TLS connection/.test(cause.message);
  if (!isTls || cause instanceof AggregateError) return connectError(where, cause);
  return tlsError(where, cause, code);
}

/** TLS with a peer failed: at once or, where TLS 1.3 lets a server judge the client last, behind the TLS handshake. */
export function tlsError(peer: string, cause: Error, code: string): VerbmqError {
  const remedy = CERTIFICATE_REMEDIES[code];
  // Who hung up without a word has judged nothing, and may be too busy, or about to end.
  const hungUp = code === 'ECONNRESET' || code === 'ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR';
  return new VerbmqError(
    'ERR_VERBMQ_TLS',
    `TLS with ${peer} failed: ${remedy === undefined ? cause.message : `${remedy} (${code})`}`,
    { cause, retryable: hungUp },
  );
}
