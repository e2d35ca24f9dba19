/**
 * Stop strings in a stream: nothing of a stop string is let out, nothing held back is lost. The earliest occurrence wins; among
 * those that begin together the one that is complete first.
 */
export class StopStrings {
  readonly #stops: string[];
  #held = "";
  #stopped = false;

  constructor(stops: string[]) {
    this.#stops = stops.filter((stop) => stop.length > 0);
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Text that may be shown after `text` arrived. Nothing follows once stopped. */
  push(text: string): string {
    if (this.#stopped) return "";
    const all = this.#held + text;
    const found = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#stopped = true;
      this.#held = "";
      return all.slice(0, Math.min(...found));
    }
    const keep = this.#heldLength(all);
    this.#held = all.slice(all.length - keep);
    return all.slice(0, all.length - keep);
  }

  /** What was held back when the text ends without a stop string. */
  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }

  /** Length of the longest tail that is the beginning of a stop string. */
  #heldLength(text: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      for (let n = Math.min(stop.length - 1, text.length); n > longest; n--) {
        if (text.endsWith(stop.slice(0, n))) longest = n;
      }
    }
    return longest;
  }
}
