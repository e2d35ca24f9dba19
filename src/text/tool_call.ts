/**
 * Reading one tool call at the beginning of a text, in the XML form of Qwen3.5/3.6 or as a JSON object (Qwen3, Hermes).
 *
 * The text may go on arriving: while what comes next could still change the result, the answer is "wait". Rules R4–R9, R12 of
 * test/golden/text/parse/README.md.
 */
import { argumentJson, type JsonSchema } from "./argument_value.ts";

export interface ParsedCall {
  name: string;
  /** JSON text of an object. */
  arguments: string;
}

export interface Tool {
  function: { name: string; parameters?: JsonSchema };
}

export const OPEN = "<tool_call>";
export const CLOSE = "</tool_call>";
const FUNCTION_CLOSE = "</function>";
const PARAMETER_CLOSE = "</parameter>";
const AFTER_VALUE = /\s*(?:<parameter=|<\/function>|<\/tool_call>|<function=|<tool_call>)/y;
const FOLLOWERS = ["<parameter=", FUNCTION_CLOSE, CLOSE, "<function=", OPEN];

export type Reading<T> = T | "wait";

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function skipSpace(text: string, at: number): number {
  return at + (matchAt(/\s*/y, text, at)?.[0].length ?? 0);
}

/** Whether text[at:] is a proper beginning of one of the words, so that more text could complete it. */
export function couldBecome(text: string, at: number, words: string[]): boolean {
  const rest = text.slice(at);
  return words.some((word) => word.length > rest.length && word.startsWith(rest));
}

/** One newline less at each end (CR LF is one). */
function withoutNewlines(raw: string): string {
  return raw.replace(/^\r?\n/, "").replace(/\r?\n$/, "");
}

/** A value that ends in the middle of a closing tag. */
function withoutHalfTag(raw: string): string {
  for (const tag of [PARAMETER_CLOSE, FUNCTION_CLOSE, CLOSE]) {
    for (let n = tag.length - 1; n > 1; n--) {
      if (raw.endsWith(tag.slice(0, n))) return raw.slice(0, -n);
    }
  }
  return raw;
}

/** A known parameter that begins inside a value whose closer is missing. */
function innerParameter(value: string, known: ReadonlySet<string>): number | undefined {
  for (const match of value.matchAll(/\n<parameter=([^>\n]*)>\r?\n/g)) {
    if (known.has(match[1]!.trim())) return match.index + 1;
  }
  return undefined;
}

/** Where the value that begins at `at` ends and where reading goes on. */
function valueEnd(
  text: string,
  at: number,
  options: { known: ReadonlySet<string>; final: boolean },
): Reading<{ end: number; next: number }> {
  for (let from = at;;) {
    const end = text.indexOf(PARAMETER_CLOSE, from);
    if (end < 0) break;
    const after = end + PARAMETER_CLOSE.length;
    const space = skipSpace(text, after);
    const undecided = space === text.length || couldBecome(text, space, FOLLOWERS);
    if (undecided && !options.final) return "wait";
    if (matchAt(AFTER_VALUE, text, after) !== null || space === text.length) {
      const inner = innerParameter(text.slice(at, end), options.known);
      return inner === undefined ? { end, next: after } : { end: at + inner, next: at + inner };
    }
    from = after;
  }
  if (!options.final) return "wait";
  const stops = [text.indexOf(FUNCTION_CLOSE, at), text.indexOf(CLOSE, at)].filter((each) => each >= 0);
  const end = Math.min(text.length, ...stops);
  return { end, next: end };
}

/** text[at:] begins with <function=NAME>. `next`: where the text after the call begins. */
function readFunction(
  text: string,
  at: number,
  options: { tools: Tool[]; final: boolean },
): Reading<{ call: ParsedCall; next: number }> {
  const header = matchAt(/<function=([^>\n]*)>/y, text, at)!;
  const name = header[1]!.trim();
  const schema = options.tools.find((tool) => tool.function.name === name)?.function.parameters;
  const properties = (schema?.["properties"] ?? {}) as Record<string, unknown>;
  const known = new Set(Object.keys(properties));
  const values = new Map<string, string>();
  const done = (next: number) => {
    const members = [...values].map(([key, value]) => `${JSON.stringify(key)}: ${value}`);
    return { call: { name, arguments: `{${members.join(", ")}}` }, next };
  };
  for (let at2 = at + header[0].length;;) {
    const here = skipSpace(text, at2);
    const parameter = matchAt(/<parameter=([^>\n]*)>/y, text, here);
    if (parameter !== null) {
      const begin = here + parameter[0].length;
      const value = valueEnd(text, begin, { known, final: options.final });
      if (value === "wait") return "wait";
      const raw = text.slice(begin, value.end);
      const key = parameter[1]!.trim();
      values.delete(key);
      values.set(
        key,
        argumentJson(withoutNewlines(value.end === text.length ? withoutHalfTag(raw) : raw), properties[key]),
      );
      at2 = value.next;
      continue;
    }
    if (text.startsWith(FUNCTION_CLOSE, here)) return done(here + FUNCTION_CLOSE.length);
    const open = text.startsWith("<parameter=", here) && !text.slice(here).includes("\n");
    if (!options.final && (here === text.length || open || couldBecome(text, here, ["<parameter=", FUNCTION_CLOSE]))) {
      return "wait";
    }
    return done(text.startsWith("<parameter=", here) ? text.length : here);
  }
}

/** End of the JSON object that begins at `at`; undefined while its braces are open. */
function objectEnd(text: string, at: number): number | undefined {
  let depth = 0;
  let inString = false;
  for (let i = at; i < text.length; i++) {
    const c = text[i];
    if (inString) {
      if (c === "\\") i++;
      else if (c === '"') inString = false;
    } else if (c === '"') inString = true;
    else if (c === "{" || c === "[") depth++;
    else if ((c === "}" || c === "]") && --depth === 0) return i + 1;
  }
  return undefined;
}

/** The source text of one member of a JSON object, digits and all. */
function memberSource(object: string, key: string): string | undefined {
  const pattern = new RegExp(`"${key}"\\s*:\\s*`, "g");
  for (const match of object.matchAll(pattern)) {
    const begin = match.index + match[0].length;
    const end = object[begin] === "{" ? objectEnd(object, begin) : undefined;
    if (end !== undefined && depthAt(object, match.index) === 1) return object.slice(begin, end);
  }
  return undefined;
}

function depthAt(text: string, at: number): number {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < at; i++) {
    if (inString) {
      if (text[i] === "\\") i++;
      else if (text[i] === '"') inString = false;
    } else if (text[i] === '"') inString = true;
    else if (text[i] === "{" || text[i] === "[") depth++;
    else if (text[i] === "}" || text[i] === "]") depth--;
  }
  return inString ? -1 : depth;
}

function callOfJson(source: string): ParsedCall | undefined {
  try {
    const object = JSON.parse(source) as Record<string, unknown>;
    const key = object["arguments"] === undefined ? "parameters" : "arguments";
    const value = typeof object[key] === "string" ? JSON.parse(object[key]) as unknown : object[key] ?? {};
    if (typeof object["name"] !== "string" || typeof value !== "object" || value === null || Array.isArray(value)) {
      return undefined;
    }
    const text = typeof object[key] === "string" ? object[key] : memberSource(source, key);
    return { name: object["name"], arguments: text ?? JSON.stringify(value) };
  } catch {
    return undefined;
  }
}

/**
 * Reads the call that text[0:] begins with: `<tool_call>` or a bare `<function=…>`. `text` is what turns out to be no call but content;
 * `drop`: nothing usable follows, the rest of the text goes.
 */
export function readCall(
  text: string,
  options: { tools: Tool[]; final: boolean },
): Reading<{ call: ParsedCall; next: number } | { text: number } | "drop"> {
  const at = text.startsWith(OPEN) ? skipSpace(text, OPEN.length) : 0;
  if (text[at] === "{") {
    const end = objectEnd(text, at);
    if (end === undefined && !options.final) return "wait";
    const call = end === undefined ? undefined : callOfJson(text.slice(at, end));
    if (call !== undefined) return { call, next: end! };
    const close = text.indexOf(CLOSE, at);
    if (close >= 0) return { text: close + CLOSE.length };
    return options.final ? "drop" : "wait";
  }
  if (matchAt(/<function=[^>\n]*>/y, text, at) !== null) return readFunction(text, at, options);
  /* A header that a line break ends before its ">" never becomes one. */
  const broken = text.startsWith("<function=", at) && text.slice(at).includes("\n");
  return options.final || broken ? "drop" : "wait";
}
