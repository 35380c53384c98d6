/** How much a side takes in that its application has not read: the bound of what a sender may have under way. */
export interface Window {
  readonly bytes: number;
  readonly messages: number;
}

/** The sender's view of the peer's window. */
export class Credits {
  readonly #window: Window;
  #bytes: number;
  #messages: number;

  constructor(window: Window) {
    this.#window = window;
    this.#bytes = window.bytes;
    this.#messages = window.messages;
  }

  /** Whether a message of so many bytes may leave. One that is longer than the whole window may when nothing else is under way. */
  take(bytes: number): boolean {
    if (this.#messages === 0) return false;
    if (bytes > this.#bytes && this.#messages < this.#window.messages) return false;
    this.#bytes -= bytes;
    this.#messages--;
    return true;
  }

  give(bytes: number, messages: number): void {
    this.#bytes += bytes;
    this.#messages += messages;
  }
}

/** The receiver's side: which messages occupy its window, and which of them the application keeps. */
export class Receipts {
  readonly #grant: (bytes: number, messages: number) => void;
  readonly #keepable: Window;
  readonly #kept = new Set<number>();
  #keptBytes = 0;
  #tokens = 0;

  constructor(window: Window, grant: (bytes: number, messages: number) => void) {
    this.#grant = grant;
    this.#keepable = { bytes: window.bytes / 2, messages: window.messages / 2 };
  }

  /** The token of the next message. */
  next(): number {
    return this.#tokens++;
  }

  release(token: number, bytes: number): void {
    if (this.#kept.delete(token)) this.#keptBytes -= bytes;
    else this.#grant(bytes, 1);
  }

  /** Kept messages leave the window at once. As much as half of it stays where it is; what is kept beyond that is copied. */
  retain(token: number, data: Uint8Array): Uint8Array | undefined {
    const bytes = data.byteLength;
    this.#grant(bytes, 1);
    if (this.#kept.size >= this.#keepable.messages || this.#keptBytes + bytes > this.#keepable.bytes)
      return new Uint8Array(data);
    this.#kept.add(token);
    this.#keptBytes += bytes;
    return undefined;
  }
}
