/**
 * Python's methods of text that templates call on messages, where @huggingface/jinja has them otherwise or not at all.
 *
 * Every search goes through `fold`, so that a template finds "</think>" in a message whose "<" is a stand-in (see Shadows); what is cut
 * out keeps its stand-ins. Invariant: fold never changes a length.
 */
import type { Fold } from "./jinja_values.ts";

export interface TextCall {
  /** Plain values of the positional arguments. */
  args: unknown[];
  named: ReadonlyMap<string, unknown>;
  fold: Fold;
}

/** What str.strip() takes for white space (Unicode White_Space plus the separators U+001C to U+001F; not U+FEFF). */
const PYTHON_SPACE =
  "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";

const WORD = new RegExp(`[^${PYTHON_SPACE}]+`, "g");

/** str.strip and its halves. */
function strip(text: string, call: TextCall, sides: { left: boolean; right: boolean }): string {
  const characters = call.args[0] ?? call.named.get("chars") ?? PYTHON_SPACE;
  const set = new Set(String(characters));
  const all = [...text];
  const has = (at: number) => set.has(all[at]!) || set.has(call.fold(all[at]!));
  let begin = 0;
  let end = all.length;
  while (sides.left && begin < end && has(begin)) begin++;
  while (sides.right && end > begin && has(end - 1)) end--;
  return all.slice(begin, end).join("");
}

/** Where `part` occurs, left to right without overlap, at most `limit` times. */
function occurrences(text: string, part: string, options: { limit: number; fold: Fold }): number[] {
  const [haystack, needle] = [options.fold(text), options.fold(part)];
  const found: number[] = [];
  for (let at = haystack.indexOf(needle); at >= 0 && found.length < options.limit;) {
    found.push(at);
    at = haystack.indexOf(needle, at + needle.length);
  }
  return found;
}

/** The text between the places where `part` was found. */
function pieces(text: string, part: string, found: number[]): string[] {
  const begins = [0, ...found.map((at) => at + part.length)];
  return begins.map((begin, i) => text.slice(begin, found[i] ?? text.length));
}

function limitOf(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : Infinity;
}

/** str.split: at white space without a separator. Fails as Python does on an empty one. */
function split(text: string, call: TextCall): string[] {
  const separator = call.args[0] ?? call.named.get("sep") ?? null;
  const limit = limitOf(call.args[1] ?? call.named.get("maxsplit"));
  if (separator !== null) {
    if (typeof separator !== "string") throw new Error("must be str or None");
    if (separator === "") throw new Error("empty separator");
    return pieces(text, separator, occurrences(text, separator, { limit, fold: call.fold }));
  }
  const words: string[] = [];
  for (const word of text.matchAll(WORD)) {
    if (words.length >= limit) {
      return [...words, strip(text.slice(word.index), { ...call, args: [] }, { left: true, right: false })];
    }
    words.push(word[0]);
  }
  return words;
}

function replace(text: string, call: TextCall): string {
  const [from, to] = call.args;
  if (typeof from !== "string" || typeof to !== "string") throw new Error("replace() arguments must be strings");
  const limit = limitOf(call.args[2] ?? call.named.get("count"));
  if (from === "") return text.replaceAll(from, () => to);
  return pieces(text, from, occurrences(text, from, { limit, fold: call.fold })).join(to);
}

/** str.startswith and str.endswith: one text or several, within text[start:end]. */
function touches(text: string, call: TextCall, side: "startsWith" | "endsWith"): boolean {
  const [parts, start, end] = call.args as [unknown, number | undefined, number | undefined];
  const within = start === undefined ? text : [...text].slice(start, end).join("");
  return (Array.isArray(parts) ? parts : [parts]).some((part) => {
    if (typeof part !== "string") throw new Error(`${side.toLowerCase()} first arg must be str or a tuple of str`);
    return call.fold(within)[side](call.fold(part));
  });
}

function capitalise(text: string): string {
  const [first = "", ...rest] = [...text];
  return first.toUpperCase() + rest.join("").toLowerCase();
}

/** By name: plain text in, plain value (text, boolean, number, list of text) out. */
export const TEXT_METHODS: ReadonlyMap<string, (text: string, call: TextCall) => unknown> = new Map(
  Object.entries({
    strip: (text: string, call: TextCall) => strip(text, call, { left: true, right: true }),
    lstrip: (text: string, call: TextCall) => strip(text, call, { left: true, right: false }),
    rstrip: (text: string, call: TextCall) => strip(text, call, { left: false, right: true }),
    split,
    replace,
    startswith: (text: string, call: TextCall) => touches(text, call, "startsWith"),
    endswith: (text: string, call: TextCall) => touches(text, call, "endsWith"),
    find: (text: string, call: TextCall) => call.fold(text).indexOf(call.fold(String(call.args[0]))),
    count: (text: string, call: TextCall) =>
      occurrences(text, String(call.args[0]), { limit: Infinity, fold: call.fold }).length,
    join: (text: string, call: TextCall) => (call.args[0] as string[]).join(text),
    capitalize: capitalise,
    title: (text: string) => text.replace(/\p{L}+/gu, capitalise),
  }),
);

/** Filters that are functions of text alone. */
export const TEXT_FILTERS: ReadonlyMap<string, (text: string, call: TextCall) => unknown> = new Map(
  Object.entries({
    trim: (text: string, call: TextCall) => strip(text, call, { left: true, right: true }),
    replace,
    capitalize: capitalise,
    title: (text: string) => text.replace(/[^\s\-({[<]+/g, capitalise),
    length: (text: string) => [...text].length,
    list: (text: string) => [...text],
  }),
);
