/**
 * Text from model files on its way into messages. A file must not be able to write a second line, a terminal's control sequence or a
 * page of text into an error: names with such characters are refused where they are read, values are quoted and cut.
 */
import { SurgeError } from "../base/errors.ts";

const UNPRINTABLE = /[\p{C}\u2028\u2029]/u;
const EVERY_UNPRINTABLE = new RegExp(UNPRINTABLE, "gu");
const QUOTED_LIMIT = 80;

/** `name` itself, or a refusal that says which name it was (`what`: "the name of tensor 5"). */
export function printableName(name: string, path: string, what: string): string {
  if (name.length > 0 && !UNPRINTABLE.test(name)) return name;
  throw new SurgeError("data", `${path}: ${what} is empty or holds unprintable characters; the file is damaged.`);
}

/** A message that quotes a file somewhere, as one printable line. */
export function withoutUnprintable(message: string): string {
  return message.replace(EVERY_UNPRINTABLE, "?");
}

/** A value of any kind as short printable JSON; "unknown" when there is none. */
export function quoted(value: unknown): string {
  const json = withoutUnprintable(JSON.stringify(value) ?? "unknown");
  return json.length > QUOTED_LIMIT ? `${json.slice(0, QUOTED_LIMIT)}…` : json;
}
