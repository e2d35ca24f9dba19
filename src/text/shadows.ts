/**
 * Stand-ins for the characters that added tokens are made of, so that no text from outside can be read as a token.
 *
 * The punctuation of every added token (for Qwen: < > | /) is replaced, in all text that comes from outside, by private-use characters
 * that occur nowhere in this rendering. Whatever a template does with such text – cut, join, trim – no token can arise from it, and
 * `fold` lets the template still find "</think>" in it. Invariant: one UTF-16 unit stands for one, so positions and lengths stay.
 */
import { SurgeError } from "../base/errors.ts";

const FIRST = 0xe000;
const LAST = 0xf8ff;
const PRIVATE = /[\uE000-\uF8FF]/g;
/** Quotes and backslashes are JSON's, "_" decides the order of keys: they stay. */
const PUNCTUATION = /[^\p{L}\p{M}\p{N}\s"'\\_]/gu;

/** The characters to guard: the punctuation of each token, or its first character where it has none. */
function guardedBy(tokens: readonly string[]): Set<string> {
  const guarded = new Set<string>();
  for (const token of tokens) {
    const marks = (token.match(PUNCTUATION) ?? []).filter((mark) => mark.length === 1);
    for (const mark of marks.length > 0 ? marks : token.trim().slice(0, 1)) guarded.add(mark);
  }
  return guarded;
}

function eachText(value: unknown, visit: (text: string) => void): void {
  if (typeof value === "string") visit(value);
  else if (typeof value === "object" && value !== null) {
    for (const [key, each] of Object.entries(value)) {
      visit(key);
      eachText(each, visit);
    }
  }
}

function mapText(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((each) => mapText(each, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [change(key), mapText(each, change)]));
}

export class Shadows {
  readonly #standIn = new Map<string, string>();
  readonly #original = new Map<string, string>();

  /** `texts`: everything that takes part in the rendering, the template itself included; stand-ins are chosen outside of it. */
  constructor(tokens: readonly string[], texts: unknown) {
    const taken = new Set<string>();
    eachText(texts, (text) => {
      for (const [each] of text.matchAll(PRIVATE)) taken.add(each);
    });
    let next = FIRST;
    for (const character of guardedBy(tokens)) {
      while (taken.has(String.fromCharCode(next))) next++;
      if (next > LAST) throw new SurgeError("usage", "The messages use every private-use character; leave some out.");
      const standIn = String.fromCharCode(next++);
      this.#standIn.set(character, standIn);
      this.#original.set(standIn, character);
    }
  }

  /** A copy of the value with stand-ins in all its texts, keys included. */
  protect<T>(value: T): T {
    return mapText(value, (text) => this.#protectText(text)) as T;
  }

  #protectText(text: string): string {
    return Array.from({ length: text.length }, (_, i) => this.#standIn.get(text[i]!) ?? text[i]!).join("");
  }

  /** The text with its stand-ins turned back. */
  readonly fold = (text: string): string => text.replace(PRIVATE, (each) => this.#original.get(each) ?? each);
}
