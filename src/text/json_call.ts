/** A tool call written as a JSON object (Qwen3, Hermes): rule R12 of test/golden/text/parse/README.md. */

export interface JsonCall {
  name: string;
  /** JSON text of an object, digits and all as the model wrote them. */
  arguments: string;
}

/** Walks a JSON text that goes on arriving and finds where its first value, an object or a list, ends. */
export class JsonWalk {
  #at: number;
  #depth = 0;
  #inString = false;

  constructor(at: number) {
    this.#at = at;
  }

  /** End of the value in a text that only grows from call to call; undefined while its braces are open. */
  end(text: string): number | undefined {
    for (; this.#at < text.length; this.#at++) {
      const c = text[this.#at];
      if (this.#inString) {
        if (c === "\\") {
          /* The escaped character may not be there yet. */
          if (this.#at + 1 === text.length) return undefined;
          this.#at++;
        } else if (c === '"') this.#inString = false;
      } else if (c === '"') this.#inString = true;
      else if (c === "{" || c === "[") this.#depth++;
      else if ((c === "}" || c === "]") && --this.#depth === 0) return this.#at + 1;
    }
    return undefined;
  }
}

/** The source text of one object member of an object that parses. */
function memberSource(object: string, key: string): string | undefined {
  const strings = /"(?:[^"\\]|\\.)*"|[{}[\]]/g;
  let depth = 0;
  for (const { 0: token, index } of object.matchAll(strings)) {
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
    else if (depth === 1 && JSON.parse(token) === key) {
      const colon = /\s*:\s*/y;
      colon.lastIndex = index + token.length;
      const begin = index + token.length + (colon.exec(object)?.[0].length ?? 0);
      if (begin > index + token.length && object[begin] === "{") {
        return object.slice(begin, new JsonWalk(begin).end(object));
      }
    }
  }
  return undefined;
}

/** The call an object stands for; undefined where it is none. */
export function callOfJson(source: string): JsonCall | undefined {
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
