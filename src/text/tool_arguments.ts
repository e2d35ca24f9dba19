/**
 * Reading the parameters of one `<function=NAME>` call as they arrive (rules R4–R9 of test/golden/text/parse/README.md), and writing
 * them as the JSON text of an object: text goes out as soon as it cannot be part of a tag any more, everything else when it is whole.
 *
 * Invariant: what was written is never taken back, whatever comes next. A parameter given twice is written twice; readers of JSON take
 * the last, as the rule says.
 */
import { argumentJson, isTextOnly } from "./argument_value.ts";
import {
  CLOSE,
  couldBecome,
  FUNCTION_CLOSE,
  FUNCTION_OPEN,
  OPEN,
  PARAMETER_CLOSE,
  PARAMETER_OPEN,
  skipSpace,
} from "./tags.ts";

const AFTER_VALUE = [PARAMETER_OPEN, FUNCTION_CLOSE, CLOSE, FUNCTION_OPEN, OPEN];
const ENDS = [PARAMETER_CLOSE, FUNCTION_CLOSE, CLOSE];

export interface Progress {
  /** How much of the text is done with. */
  used: number;
  /** JSON text to append to the arguments. */
  json: string;
  /** "wait": more text is needed. "go": call again with the rest. "end": the function is read. */
  then: "wait" | "go" | "end";
}

/** Where a value ends, or how much of it is certain so far. */
interface ValueEnd {
  end: number;
  /** Where reading goes on; undefined while the end is not known. */
  next?: number;
}

/** Where a tail of text begins that could become one of the words; the length of the text where none does. */
function tailOf(text: string, words: readonly string[]): number {
  const longest = Math.max(...words.map((word) => word.length));
  for (let at = Math.max(0, text.length - longest); at < text.length; at++) {
    if (couldBecome(text, at, words)) return at;
  }
  return text.length;
}

/** `end` without one newline before it (CR LF is one). */
function beforeNewline(text: string, end: number): number {
  if (text[end - 1] !== "\n") return end;
  return text[end - 2] === "\r" ? end - 2 : end - 1;
}

export class ArgumentsReader {
  readonly #properties: Record<string, unknown>;
  #empty = true;
  /** The parameter whose value is being read. */
  #key: string | undefined;
  /** Its value is text, the newline before it is gone and its quotation mark is written. */
  #quoted = false;

  /** `properties`: the schema of each known parameter. */
  constructor(properties: Record<string, unknown>) {
    this.#properties = properties;
  }

  /** One step on text that begins where the last step ended. `final`: nothing follows. */
  step(text: string, final: boolean): Progress {
    return this.#key === undefined ? this.#between(text, final) : this.#value(text, final);
  }

  #between(text: string, final: boolean): Progress {
    const at = skipSpace(text, 0);
    const header = /^<parameter=([^>\n]*)>/.exec(text.slice(at));
    if (header !== null) {
      this.#key = header[1]!.trim();
      const json = `${this.#empty ? "{" : ", "}${JSON.stringify(this.#key)}: `;
      this.#empty = false;
      return { used: at + header[0].length, json, then: "go" };
    }
    const end = { json: this.#empty ? "{}" : "}", then: "end" } as const;
    if (text.startsWith(FUNCTION_CLOSE, at)) return { used: at + FUNCTION_CLOSE.length, ...end };
    const halfHeader = text.startsWith(PARAMETER_OPEN, at) && !text.includes("\n", at);
    if (final) return { used: halfHeader ? text.length : at, ...end };
    const open = at === text.length || halfHeader || couldBecome(text, at, [PARAMETER_OPEN, FUNCTION_CLOSE]);
    return open ? { used: 0, json: "", then: "wait" } : { used: at, ...end };
  }

  #value(text: string, final: boolean): Progress {
    const key = this.#key!;
    const schema = Object.hasOwn(this.#properties, key) ? this.#properties[key] : undefined;
    const begin = this.#quoted ? 0 : /^(\r?\n)?/.exec(text)![0].length;
    const { end, next } = this.#valueEnd(text, { begin, final });
    const inner = text.slice(begin, Math.max(begin, next === undefined ? end : beforeNewline(text, end)));
    if (!isTextOnly(schema)) {
      if (next === undefined) return { used: 0, json: "", then: "wait" };
      this.#key = undefined;
      return { used: next, json: argumentJson(inner, schema), then: "go" };
    }
    const json = `${this.#quoted ? "" : '"'}${JSON.stringify(inner).slice(1, -1)}`;
    if (next !== undefined) {
      this.#quoted = false;
      this.#key = undefined;
      return { used: next, json: `${json}"`, then: "go" };
    }
    if (!this.#quoted && inner === "") return { used: 0, json: "", then: "wait" };
    this.#quoted = true;
    return { used: begin + inner.length, json, then: "wait" };
  }

  #valueEnd(text: string, { begin, final }: { begin: number; final: boolean }): ValueEnd {
    const follower = this.#innerParameter(text, final);
    const closer = this.#closer(text, final);
    if (follower?.next !== undefined && (closer === undefined || follower.end < closer.end)) return follower;
    if (closer?.next !== undefined && (follower === undefined || closer.end < follower.end)) return closer;
    /* A closer of the function counts only if the value's own does not come any more. */
    const others = [text.indexOf(FUNCTION_CLOSE), text.indexOf(CLOSE)].filter((at) => at >= 0);
    const stop = Math.min(text.length, ...others);
    if (final) {
      const end = stop < text.length ? stop : tailOf(text, ENDS);
      /* A lone "<" at the end is the value's own. */
      return { end: end === text.length - 1 ? text.length : end, next: stop };
    }
    const certain = Math.min(stop, closer?.end ?? Infinity, follower?.end ?? Infinity, tailOf(text, ENDS));
    return { end: Math.max(begin, beforeTail(text, certain)) };
  }

  /** The value's closer: `</parameter>` with another tag, or the end of everything, behind it. No `next`: not yet decided. */
  #closer(text: string, final: boolean): ValueEnd | undefined {
    for (let end = text.indexOf(PARAMETER_CLOSE); end >= 0; end = text.indexOf(PARAMETER_CLOSE, end + 1)) {
      const next = end + PARAMETER_CLOSE.length;
      const after = skipSpace(text, next);
      if (after === text.length) return final ? { end, next } : { end };
      if (AFTER_VALUE.some((tag) => text.startsWith(tag, after))) return { end, next };
      if (!final && couldBecome(text, after, AFTER_VALUE)) return { end };
    }
    return undefined;
  }

  /** A line that opens another known parameter ends a value whose closer was forgotten. No `next`: not yet decided. */
  #innerParameter(text: string, final: boolean): ValueEnd | undefined {
    for (let at = text.indexOf(`\n${PARAMETER_OPEN}`); at >= 0; at = text.indexOf(`\n${PARAMETER_OPEN}`, at + 1)) {
      const header = /^<parameter=([^>\n]*)(>(\r?\n)?)?/.exec(text.slice(at + 1))!;
      const known = Object.hasOwn(this.#properties, header[1]!.trim());
      if (known && header[3] !== undefined) return { end: at + 1, next: at + 1 };
      const rest = text.slice(at + 1 + header[0].length);
      const open = header[2] === undefined ? rest === "" : known && (rest === "" || rest === "\r");
      if (!final && open) return { end: at + 1 };
    }
    const tail = tailOf(text, [`\n${PARAMETER_OPEN}`]);
    return !final && tail < text.length ? { end: tail + 1 } : undefined;
  }
}

/** `end` without a newline, or half of one or of a character, that what comes next may make part of a tag. */
function beforeTail(text: string, end: number): number {
  const before = beforeNewline(text, end);
  if (before < end) return before;
  return /[\r\ud800-\udbff]/.test(text[end - 1] ?? "") ? end - 1 : end;
}
