/**
 * Bytes in, whole characters out. A character that can still be completed is held back; ill-formed bytes become U+FFFD. A byte order
 * mark is text like any other here.
 */
export class Utf8Stream {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  push(bytes: Uint8Array): string {
    return this.#decoder.decode(bytes, { stream: true });
  }

  /** What is left of an unfinished character. */
  flush(): string {
    return this.#decoder.decode();
  }
}
