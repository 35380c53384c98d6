import { VerbmqError } from '../contract/errors.js';
import type { ProbeResult, Transport } from '../contract/transport.js';
import type { ResolvedAutoOptions } from './options.js';

/** Whether one connection can use a fast path at this side: at once, or as soon as that is found out. */
export class Availability {
  /** Resolves when it is known. Never rejects. */
  readonly found: Promise<void>;
  /** Why it cannot; `undefined` also while nothing is known. */
  reason: string | undefined;
  known = false;
  /** The options name what is not there. */
  misnamed: VerbmqError | undefined;

  /** @param finding the reason where it is known already */
  constructor(finding: string | Promise<ProbeResult>) {
    if (typeof finding === 'string') {
      this.reason = finding;
      this.known = true;
      this.found = Promise.resolve();
    } else this.found = finding.then((probe) => this.#learn(probe));
  }

  #learn(probe: ProbeResult): void {
    this.known = true;
    if (probe.available) return;
    const { code, reason, remedy } = probe;
    this.reason = code;
    if (probe.misnamed)
      this.misnamed = new VerbmqError('ERR_VERBMQ_UNAVAILABLE', `${reason}; ${remedy}`, { reason: code });
  }
}

/** Whether this side can use a fast path at all. */
export class FastAvailability {
  readonly #fast: Transport | undefined;
  /** The last probe, for connections that wait for it. */
  #last: { readonly at: number; readonly result: Promise<ProbeResult>; pending: boolean } | undefined;

  constructor(fast: Transport | undefined) {
    this.#fast = fast;
  }

  find({ policy, minFastRetryMs }: ResolvedAutoOptions): Availability {
    if (policy === 'tcp') return new Availability('policy');
    if (this.#fast === undefined) return new Availability('not-configured');
    return new Availability(this.probe(policy === 'require-rdma' ? 0 : minFastRetryMs));
  }

  /**
   * What `probe` of the fast transport says, or said so little ago: it opens devices, and connections ask together. While one has not
   * come back there is no other.
   */
  probe(maxAgeMs: number): Promise<ProbeResult> {
    const now = performance.now();
    if (this.#last === undefined || (!this.#last.pending && now - this.#last.at > maxAgeMs)) {
      const last = { at: now, result: (this.#fast as Transport).probe(), pending: true };
      this.#last = last;
      void last.result.then(() => {
        last.pending = false;
      });
    }
    return this.#last.result;
  }
}

/** Whoever asked for encryption is not taken off it unless both sides said that they may be. */
export function encryptionReason(
  baseKind: string,
  { unencryptedFastPath }: ResolvedAutoOptions,
): 'encrypted' | undefined {
  return baseKind === 'tls' && !unencryptedFastPath ? 'encrypted' : undefined;
}

export function requiredError(reason: string, cause: unknown, peerReason?: string): VerbmqError {
  const whose = peerReason === undefined ? '' : `: the peer says ${peerReason}`;
  const remedy =
    (peerReason ?? reason) === 'encrypted'
      ? '; it is not encrypted as the base connection is: both sides may set unencryptedFastPath'
      : '';
  return new VerbmqError(
    'ERR_VERBMQ_UNAVAILABLE',
    `the fast path is required (by the policy of a side, or by fastAddresses) and cannot be had (${reason}${whose})${remedy}`,
    { cause, reason },
  );
}
