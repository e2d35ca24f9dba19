/**
 * A tool argument as the model wrote it, turned into JSON text by the tool's schema: strings raw, everything else JSON, then Python
 * literals (True, None, ['a']), then raw text. JSON text is kept as written, so digits that a double cannot hold survive.
 */

export type JsonSchema = Record<string, unknown>;

/** Type names of a schema, those of anyOf and oneOf included. */
function typesOf(schema: unknown): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { type, anyOf, oneOf } = schema as { type?: unknown; anyOf?: unknown; oneOf?: unknown };
  const own = (Array.isArray(type) ? type : [type]).filter((each) => typeof each === "string");
  const nested = [anyOf, oneOf].flatMap((list) => Array.isArray(list) ? list : []);
  return [...own, ...nested.flatMap(typesOf)] as string[];
}

function fits(value: unknown, type: string): boolean {
  switch (type) {
    case "integer":
      return Number.isInteger(value);
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    default:
      return false;
  }
}

function parseJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

const DEPTH_MAX = 64;

/** Reads Python's literals: None, True, False, numbers, strings, lists, tuples, dicts. Throws on anything else. */
class PythonReader {
  #at = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  read(): unknown {
    const value = this.#value(0);
    this.#space();
    if (this.#at < this.#text.length) throw new Error("text after the literal");
    return value;
  }

  #space(): void {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++;
  }

  #take(pattern: RegExp): string | undefined {
    const match = new RegExp(pattern.source, "y");
    match.lastIndex = this.#at;
    const found = match.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #value(depth: number): unknown {
    if (depth > DEPTH_MAX) throw new Error("too deep");
    this.#space();
    const word = this.#take(/(None|True|False)\b/);
    if (word !== undefined) return word === "None" ? null : word === "True";
    const number = this.#take(/[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+)/);
    if (number !== undefined) return Number(number);
    if (this.#take(/\[/)) return this.#items("]", depth);
    if (this.#take(/\(/)) return this.#items(")", depth);
    if (this.#take(/\{/)) return this.#pairs(depth);
    return this.#string();
  }

  #string(): string {
    const quoted = this.#take(/'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"/);
    if (quoted === undefined) throw new Error("no literal");
    const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", "\\": "\\", "'": "'", '"': '"' };
    return quoted.slice(1, -1).replace(/\\([^])/g, (whole, each: string) => escapes[each] ?? whole);
  }

  #items(close: string, depth: number): unknown[] {
    const items: unknown[] = [];
    for (this.#space(); this.#text[this.#at] !== close; this.#space()) {
      items.push(this.#value(depth + 1));
      this.#space();
      if (!this.#take(/,/) && this.#text[this.#at] !== close) throw new Error("no comma");
    }
    this.#at++;
    return items;
  }

  #pairs(depth: number): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    for (this.#space(); this.#text[this.#at] !== "}"; this.#space()) {
      const key = this.#value(depth + 1);
      this.#space();
      if (typeof key !== "string" || !this.#take(/:/)) throw new Error("no key");
      object[key] = this.#value(depth + 1);
      this.#space();
      if (!this.#take(/,/) && this.#text[this.#at] !== "}") throw new Error("no comma");
    }
    this.#at++;
    return object;
  }
}

function parsePython(text: string): { value: unknown } | undefined {
  try {
    return { value: new PythonReader(text).read() };
  } catch {
    return undefined;
  }
}

/** Whether a value of this schema is text and nothing else, so that it needs no reading. */
export function isTextOnly(schema: unknown): boolean {
  const types = typesOf(schema);
  return types.length > 0 && types.every((type) => type === "string");
}

/** JSON text of a raw parameter value. */
export function argumentJson(raw: string, schema: unknown): string {
  const types = typesOf(schema);
  if (isTextOnly(schema)) return JSON.stringify(raw);
  const trimmed = raw.trim();
  const accept = (value: unknown) =>
    !types.includes("string") || types.some((type) => type !== "string" && fits(value, type));
  const json = parseJson(trimmed);
  if (json !== undefined) return accept(json.value) ? trimmed : JSON.stringify(raw);
  const python = types.length > 0 ? parsePython(trimmed) : undefined;
  const usable = python !== undefined && (typeof python.value === "boolean" || typeof python.value === "object");
  return usable && accept(python.value) ? JSON.stringify(python.value) : JSON.stringify(raw);
}
