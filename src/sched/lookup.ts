/**
 * Prompt look-up: text that repeats itself goes on as it did before. An index of one sequence's tokens, and nothing else.
 *
 * Each token and each guess costs a bounded number of comparisons, however long the sequence is.
 */

/** Tokens at the end that must have occurred before; shorter repetitions are chance. */
const LEAST_MATCH = 3;
/** A longer match says no more. */
const MOST_MATCH = 8;
/** Earlier occurrences of the last two tokens that are compared, newest first. */
const CANDIDATES = 16;
/** No vocabulary is larger, so a pair of tokens is an exact number. */
const PAIR = 2 ** 22;

export class PromptLookup {
  readonly #tokens: number[] = [];
  /** By pair of tokens: where its newest occurrence ends. */
  readonly #newest = new Map<number, number>();
  /** By index of a token: where the pair that ends there ended before; -1: nowhere. */
  readonly #before: number[] = [];

  get length(): number {
    return this.#tokens.length;
  }

  add(token: number): void {
    const at = this.#tokens.push(token) - 1;
    if (at === 0) return void this.#before.push(-1);
    const pair = this.#tokens[at - 1]! * PAIR + token;
    this.#before.push(this.#newest.get(pair) ?? -1);
    this.#newest.set(pair, at);
  }

  /** Up to `count` tokens that followed the longest earlier occurrence of the end; none where there is no such. */
  guess(count: number): number[] {
    const end = this.#longest();
    if (end < 0) return [];
    const guess: number[] = [];
    while (guess.length < count) {
      const at = end + 1 + guess.length;
      guess.push(at < this.length ? this.#tokens[at]! : guess[at - this.length]!);
    }
    return guess;
  }

  /** Where the longest match with the end ends, the newest of several; -1: none is long enough. */
  #longest(): number {
    let best = -1;
    let length = LEAST_MATCH - 1;
    let at = this.#before.at(-1) ?? -1;
    for (let left = CANDIDATES; at >= 0 && left > 0 && length < MOST_MATCH; left--) {
      const match = this.#matchAt(at);
      if (match > length) [best, length] = [at, match];
      at = this.#before[at]!;
    }
    return best;
  }

  #matchAt(end: number): number {
    const last = this.length - 1;
    let length = 0;
    while (length < MOST_MATCH && length <= end && this.#tokens[end - length] === this.#tokens[last - length]) length++;
    return length;
  }
}
