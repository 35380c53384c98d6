import { parseJsonFrame, protocolError } from './frames.js';

/**
 * The fields of a JSON object that a peer has sent. They are read by these methods alone, which answer with the type that is due
 * or throw `ERR_VERBMQ_PROTOCOL`: what a peer says is never used before it is known what it is.
 */
export class Fields {
  readonly #of: Readonly<Record<string, unknown>>;

  /** @param value from `JSON.parse` */
  constructor(value: unknown, what: string) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw protocolError(`${what} is no object`);
    this.#of = value as Record<string, unknown>;
  }

  /** Those of a frame. @throws VerbmqError `ERR_VERBMQ_PROTOCOL` where it does not carry an object. */
  static ofFrame(frame: Uint8Array): Fields {
    return new Fields(parseJsonFrame(frame), 'what a control frame carries');
  }

  text(name: string): string {
    const value = this.#of[name];
    if (typeof value !== 'string' || value.length > MAX_TEXT_LENGTH)
      throw protocolError(`its field ${name} must be a text of at most 1,024 characters`);
    return value;
  }

  optionalText(name: string): string | undefined {
    return this.#of[name] === undefined ? undefined : this.text(name);
  }

  number(name: string): number {
    const value = this.#of[name];
    if (typeof value !== 'number') throw protocolError(`its field ${name} must be a number`);
    return value;
  }

  whole(name: string, min: number, max: number): number {
    const value = this.number(name);
    if (!Number.isInteger(value) || value < min || value > max)
      throw protocolError(`its field ${name} must be a whole number from ${min} to ${max}`);
    return value;
  }

  boolean(name: string): boolean {
    const value = this.#of[name];
    if (typeof value !== 'boolean') throw protocolError(`its field ${name} must be true or false`);
    return value;
  }

  /** `false` where it is absent. */
  optionalBoolean(name: string): boolean {
    return this.#of[name] !== undefined && this.boolean(name);
  }

  optionalObject(name: string): Fields | undefined {
    const value = this.#of[name];
    return value === undefined ? undefined : new Fields(value, `its field ${name}`);
  }

  /** From one to `max` objects. */
  objects(name: string, max: number): Fields[] {
    const value = this.#of[name];
    if (!Array.isArray(value) || value.length === 0 || value.length > max)
      throw protocolError(`its field ${name} must be a list of one to ${max}`);
    return value.map((element: unknown) => new Fields(element, `an element of its field ${name}`));
  }
}

/** The longest text in a field, in characters. */
export const MAX_TEXT_LENGTH = 1024;
