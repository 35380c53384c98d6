import type { VerbmqError } from '../contract/errors.js';
import type { PathNumber } from './session.js';

/** What differs between the side that connected and the one that accepted. */
export interface AutoRole {
  /** The base connection has ended. The session is to be resumed, or fails when it cannot be. */
  baseLost(error: VerbmqError): void;
  /** The fast connection that was in use has ended. */
  fastLost(): void;
  /** Both sides have agreed on the path `path`. */
  moved(path: PathNumber): void;
  /** A frame of the negotiation of a fast path has come on the base connection. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` */
  negotiation(kind: number, frame: Uint8Array): void;
  /** The connection has ended: nothing of it may be left. */
  ended(): void;
}
