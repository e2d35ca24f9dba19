/**
 * Flags as data: one table gives parsing, range checks, help and the nearest name for a mistyped one. Errors are usage errors (64).
 */
import { parseArgs } from "@std/cli/parse-args";
import { SurgeError } from "../base/errors.ts";
import { describeRange, NUMBER_SETTINGS, readNumber } from "../engine/settings.ts";

interface FlagNames {
  name: string;
  /** llama.cpp's short names and other spellings. */
  alias?: readonly string[];
  help: string;
}

/** `value` is the placeholder in help. "texts" may be repeated, a "toggle" has a --no- form, a "choice" is one of a few words. */
export type Flag =
  & FlagNames
  & (
    | { kind: "number"; whole: boolean; min: number; max: number }
    | { kind: "text" | "texts"; value: string }
    | { kind: "choice"; of: readonly string[] }
    | { kind: "switch" | "toggle" }
  );

export const MODEL_FLAG: Flag = {
  name: "model",
  alias: ["m"],
  kind: "text",
  value: "MODEL",
  help: "the model, instead of the first argument",
};

/** Ranges are the plan's (src/plan/schema.ts). */
export const PLAN_FLAGS: Flag[] = [
  {
    name: "ctx",
    alias: ["c", "ctx-size"],
    kind: "number",
    whole: true,
    min: 1,
    max: 1 << 24,
    help: "tokens of context",
  },
  {
    name: "threads",
    alias: ["t"],
    kind: "number",
    whole: true,
    min: 1,
    max: 512,
    help: "threads (default: physical cores)",
  },
  { name: "cpus", kind: "text", value: "0-3,8", help: "pin one thread to each of these CPUs (default: not pinned)" },
  { name: "mlock", kind: "toggle", help: "keep weights and buffers in memory for good" },
  { name: "precision", kind: "choice", of: ["fast", "exact"], help: "8-bit activations, or float32 throughout" },
  { name: "weights", kind: "choice", of: ["mapped", "copied"], help: "the file's pages, or a copy in huge pages" },
  { name: "kv", kind: "choice", of: ["f16", "f32"], help: "precision of keys and values" },
];

/** Guessing ahead, for commands that answer. */
export const DRAFT_FLAGS: Flag[] = [
  {
    name: "draft",
    kind: "choice",
    of: ["none", "mtp", "lookup"],
    help: "guess ahead: by the model's prediction layer, or from earlier text",
  },
  {
    name: "draft-tokens",
    alias: ["draft-max", "draft-n"],
    kind: "number",
    whole: true,
    min: 1,
    max: 16,
    help: "tokens of one guess",
  },
];

/** How an answer is drawn and where it ends. */
export const ANSWER_FLAGS: Flag[] = [
  { name: "system", alias: ["sys"], kind: "text", value: "TEXT", help: "system prompt" },
  { name: "think", kind: "toggle", help: "let the model think first, or not (--no-think)" },
  { name: "stop", kind: "texts", value: "TEXT", help: "ends the answer; may be repeated" },
  ...NUMBER_SETTINGS.map(({ name, alias, whole, min, max, help }): Flag => (
    { name, alias, kind: "number", whole, min, max, help }
  )),
];

export interface Parsed {
  positional: string[];
  number(name: string): number | undefined;
  text(name: string): string | undefined;
  texts(name: string): string[];
  /** true, false, or not given. */
  toggle(name: string): boolean | undefined;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The candidate closest to a mistyped word, if any is close. */
export function nearest(word: string, candidates: string[]): string | undefined {
  const ranked = candidates.map((each) => ({ each, distance: editDistance(word, each) })).sort((a, b) =>
    a.distance - b.distance
  );
  return ranked[0] !== undefined && ranked[0].distance <= Math.max(2, word.length / 3) ? ranked[0].each : undefined;
}

function checkNumber(flag: Extract<Flag, { kind: "number" }>, text: string): number {
  const value = readNumber(text, flag);
  if (value !== undefined) return value;
  throw new SurgeError("usage", `--${flag.name} takes ${describeRange(flag)}, not "${text}".`);
}

/** parseArgs gives "" for a flag without a value; only a text may be meant to be empty, as in --system "". */
function isMissing(value: unknown, flag: Flag, words: string[]): boolean {
  if (flag.kind === "texts") return ((value as string[] | undefined) ?? []).includes("");
  return value === "" && !(flag.kind === "text" && words.some((word) => word === "" || word.endsWith("=")));
}

export function parseFlags(words: string[], flags: Flag[]): Parsed {
  const names = flags.flatMap((flag) => [flag.name, ...flag.alias ?? []]);
  const switches = flags.filter((flag) => flag.kind === "switch" || flag.kind === "toggle");
  const args = parseArgs(words, {
    boolean: switches.map((flag) => flag.name),
    /* "_": positional arguments stay text even where they are digits. */
    string: ["_", ...flags.filter((flag) => !switches.includes(flag)).map((flag) => flag.name)],
    collect: flags.filter((flag) => flag.kind === "texts").map((flag) => flag.name),
    negatable: flags.filter((flag) => flag.kind === "toggle").map((flag) => flag.name),
    alias: Object.fromEntries(flags.map((flag) => [flag.name, flag.alias ?? []])),
    default: Object.fromEntries(switches.map((flag) => [flag.name, undefined])),
    unknown: (word, key) => {
      if (key === undefined) return true;
      const name = word.replace(/^--?/, "").replace(/=.*/, "");
      const guess = nearest(name, names);
      const hint = guess === undefined ? "" : ` Did you mean ${guess.length === 1 ? "-" : "--"}${guess}?`;
      throw new SurgeError("usage", `Unknown flag ${word.replace(/=.*/, "")}.${hint}`);
    },
  });
  const numbers = new Map<string, number>();
  for (const flag of flags) {
    const value = args[flag.name];
    if (isMissing(value, flag, words)) {
      throw new SurgeError(
        "usage",
        `--${flag.name} needs a value; one that begins with "-" is given as --${flag.name}=VALUE.`,
      );
    }
    if (value === undefined) continue;
    if (flag.kind === "number") numbers.set(flag.name, checkNumber(flag, value as string));
    if (flag.kind === "choice" && !flag.of.includes(value as string)) {
      throw new SurgeError("usage", `--${flag.name} takes ${flag.of.join(" or ")}, not "${value}".`);
    }
  }
  return {
    positional: args._.map(String),
    number: (name) => numbers.get(name),
    text: (name) => args[name] as string | undefined,
    texts: (name) => (args[name] as string[] | undefined) ?? [],
    toggle: (name) => args[name] as boolean | undefined,
  };
}

function placeholder(flag: Flag): string {
  switch (flag.kind) {
    case "number":
      return flag.whole ? " N" : " X";
    case "choice":
      return ` ${flag.of.join("|")}`;
    case "text":
    case "texts":
      return ` ${flag.value}`;
    default:
      return "";
  }
}

/** The range, where it says more than "a number of tokens". */
function range(flag: Flag): string {
  return flag.kind === "number" && flag.max <= 1024 ? ` (${flag.min} to ${flag.max})` : "";
}

/** One help line per flag, in two columns. */
export function flagHelp(flags: Flag[]): string {
  const left = flags.map((flag) => {
    const names = [flag.name, ...flag.alias ?? []].map((name) => name.length === 1 ? `-${name}` : `--${name}`);
    if (flag.kind === "toggle") names.push(`--no-${flag.name}`);
    return `  ${names.join(", ")}${placeholder(flag)}`;
  });
  const width = Math.max(0, ...left.map((each) => each.length));
  return flags.map((flag, i) => `${left[i]!.padEnd(width)}  ${flag.help}${range(flag)}`).join("\n");
}
