/** The least that makes calls of messages: answers come in the order of the calls. */
export class OrderedCalls {
  #waiting: { readonly resolve: (answer: Uint8Array) => void; readonly reject: (error: Error) => void }[] =
    [];

  /** The next call's answer. */
  answer(): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
  }

  answered(data: Uint8Array): void {
    this.#waiting.shift()?.resolve(data);
  }

  failed(error: Error): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
