import type { Connection } from '../contract/connection.js';
import { VerbmqError } from '../contract/errors.js';
import { Fields } from './fields.js';
import { FrameKind, HEADER_BYTES, jsonFrame, protocolError } from './frames.js';
import { type PathSecret, proofBytes } from './proof.js';
import type { PathNumber } from './session.js';

/** Who may claim a fast connection, once and for a while. */
export interface Claimant {
  adoptFast(number: PathNumber, connection: Connection): void;
}

/** A token that was given out. */
export interface Claim {
  readonly secret: PathSecret;
  readonly claimant: Claimant;
  readonly timer: NodeJS.Timeout;
}

export interface ServerProofHooks {
  /** Spends a token, if its claimant has the key to it. */
  claim(token: string, proof: string): Claim | undefined;
  /** @param claim what it was for, if it has come to that */
  ended(error: VerbmqError | undefined, claim: Claim | undefined): void;
}

/** One fast connection, from its first frame until it is proved and its session has it. */
export class ServerProof {
  readonly #connection: Connection;
  readonly #hooks: ServerProofHooks;
  readonly #timer: NodeJS.Timeout;
  readonly #detach: () => void;
  #claim: Claim | undefined;
  #proofSent = false;
  #revoke: () => Promise<void> = async () => {};
  #over = false;

  constructor(connection: Connection, timeoutMs: number, hooks: ServerProofHooks) {
    this.#connection = connection;
    this.#hooks = hooks;
    this.#timer = setTimeout(() => this.end(`it was not proved within ${timeoutMs} ms`), timeoutMs);
    this.#timer.unref();
    this.#detach = connection.onMessage((message) => {
      if (!this.#over) this.#received(new Uint8Array(message.data));
    });
    void connection.closed.then(({ error }) => this.end(error?.message ?? 'the peer closed it'));
  }

  /** Ends the attempt. */
  end(why: string): void {
    if (this.#over) return;
    this.#settle();
    this.#connection.abort(why);
    const error = new VerbmqError('ERR_VERBMQ_REJECTED', `a fast path was not taken: ${why}`);
    this.#hooks.ended(error, this.#claim);
  }

  #received(frame: Uint8Array): void {
    try {
      if (frame.length < HEADER_BYTES) throw protocolError('a frame is shorter than its header');
      if (this.#claim === undefined && frame[0] === FrameKind.CLAIM) this.#claimed(frame);
      else if (this.#proofSent && frame[0] === FrameKind.PROVED) this.#proved(this.#claim as Claim, frame);
      else throw protocolError(`a frame of kind ${frame[0]} came in the proof of a path`);
    } catch (error) {
      if (!(error instanceof VerbmqError)) throw error;
      this.end(error.message);
    }
  }

  #claimed(frame: Uint8Array): void {
    const fields = Fields.ofFrame(frame);
    this.#claim = this.#hooks.claim(fields.text('token'), fields.text('proof'));
    if (this.#claim === undefined) this.end('its token is not known, or was used, or is not its own');
    else this.#prove(this.#claim.secret).catch((error: unknown) => this.end(String(error)));
  }

  async #prove(secret: PathSecret): Promise<void> {
    const bytes = proofBytes(secret, 'server');
    let descriptor: string | undefined;
    if (this.#connection.capabilities.oneSided !== 'none') {
      const exposed = await this.#connection.expose(bytes.byteLength, { read: true });
      exposed.data.set(bytes);
      descriptor = exposed.descriptor;
      this.#revoke = () => exposed.revoke();
    }
    if (this.#over) return;
    this.#proofSent = true;
    await this.#connection.send(
      jsonFrame(FrameKind.PROOF, { bytes: Buffer.from(bytes).toString('base64url'), descriptor }),
    );
  }

  #proved(claim: Claim, frame: Uint8Array): void {
    const { claimant, secret } = claim;
    Fields.ofFrame(frame);
    this.#settle();
    void this.#revoke();
    claimant.adoptFast(secret.number, this.#connection);
    this.#connection.send(jsonFrame(FrameKind.READY, {})).catch(() => {}); // its end is told elsewhere
    this.#hooks.ended(undefined, claim);
  }

  #settle(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#detach();
  }
}
