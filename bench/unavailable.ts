/** Why something cannot be measured here, and what to do about it. */
export interface Unavailable {
  readonly reason: string;
  readonly remedy?: string;
}
