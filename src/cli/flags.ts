/**
 * Flags as data: one table gives parsing, range checks, help and the nearest name for a mistyped one. Errors are usage errors (64).
 */
import { parseArgs } from "@std/cli/parse-args";
import { SurgeError } from "../base/errors.ts";

export interface Flag {
  name: string;
  /** llama.cpp's short names and other spellings. */
  alias?: string[];
  kind: "number" | "integer" | "text" | "texts" | "switch" | "toggle";
  min?: number;
  max?: number;
  /** Placeholder of the value in help. */
  value?: string;
  help: string;
}

const integer = (name: string, help: string, more: Partial<Flag> = {}): Flag => ({
  name,
  kind: "integer",
  value: "N",
  min: 0,
  help,
  ...more,
});
const number = (name: string, help: string, more: Partial<Flag>): Flag => ({
  name,
  kind: "number",
  value: "X",
  help,
  ...more,
});

export const MODEL_FLAG: Flag = {
  name: "model",
  alias: ["m"],
  kind: "text",
  value: "MODEL",
  help: "the model, instead of the first argument",
};

export const PLAN_FLAGS: Flag[] = [
  integer("ctx", "tokens of context", { alias: ["c", "ctx-size"], min: 1, max: 1 << 24 }),
  integer("threads", "threads (default: physical cores)", { alias: ["t"], min: 1, max: 512 }),
  { name: "kv", kind: "text", value: "f16|f32", help: "precision of keys and values" },
];

export const SAMPLING_FLAGS: Flag[] = [
  number("temperature", "0 picks the likeliest token", { alias: ["temp"], min: 0, max: 100 }),
  integer("top-k", "draw among the K likeliest; 0 = all"),
  number("top-p", "draw among the likeliest that hold this probability", { min: 1e-6, max: 1 }),
  number("min-p", "drop tokens below this share of the likeliest", { min: 0, max: 1 }),
  number("presence-penalty", "subtracted once for tokens already in the answer", { min: -100, max: 100 }),
  number("frequency-penalty", "subtracted for each time a token is in the answer", { min: -100, max: 100 }),
  number("repeat-penalty", "divides the score of tokens already seen; 1 = off", { min: 0.01, max: 100 }),
  integer("seed", "same seed, same text", { alias: ["s"], max: Number.MAX_SAFE_INTEGER }),
];

export const ANSWER_FLAGS: Flag[] = [
  integer("max-tokens", "most tokens of an answer", { alias: ["n", "predict", "n-predict"], min: 1 }),
  { name: "system", alias: ["sys"], kind: "text", value: "TEXT", help: "system prompt" },
  { name: "think", kind: "toggle", help: "let the model think first, or not (--no-think)" },
  integer("reasoning-budget", "tokens after which thinking is closed"),
  { name: "stop", kind: "texts", value: "TEXT", help: "ends the answer; may be repeated" },
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

function checkNumber(flag: Flag, text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  const { min = -Infinity, max = Infinity } = flag;
  if (!Number.isFinite(value) || (flag.kind === "integer" && !Number.isInteger(value)) || value < min || value > max) {
    const kind = flag.kind === "integer" ? "a whole number" : "a number";
    const range = Number.isFinite(min) && Number.isFinite(max)
      ? ` from ${min} to ${max}`
      : Number.isFinite(min)
      ? ` of at least ${min}`
      : "";
    throw new SurgeError("usage", `--${flag.name} takes ${kind}${range}, not "${text}".`);
  }
  return value;
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
    string: flags.filter((flag) => !switches.includes(flag)).map((flag) => flag.name),
    collect: flags.filter((flag) => flag.kind === "texts").map((flag) => flag.name),
    negatable: flags.filter((flag) => flag.kind === "toggle").map((flag) => flag.name),
    alias: Object.fromEntries(flags.map((flag) => [flag.name, flag.alias ?? []])),
    default: Object.fromEntries(switches.map((flag) => [flag.name, undefined])),
    unknown: (word) => {
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
    if ((flag.kind === "number" || flag.kind === "integer") && value !== undefined) {
      numbers.set(flag.name, checkNumber(flag, value as string));
    }
  }
  return {
    positional: args._,
    number: (name) => numbers.get(name),
    text: (name) => args[name] as string | undefined,
    texts: (name) => (args[name] as string[] | undefined) ?? [],
    toggle: (name) => args[name] as boolean | undefined,
  };
}

/** One help line per flag, in two columns. */
export function flagHelp(flags: Flag[]): string {
  const left = flags.map((flag) => {
    const names = [
      `--${flag.name}`,
      ...(flag.alias ?? []).map((alias) => alias.length === 1 ? `-${alias}` : `--${alias}`),
    ];
    if (flag.kind === "toggle") names.push(`--no-${flag.name}`);
    return `  ${names.join(", ")}${flag.value === undefined ? "" : ` ${flag.value}`}`;
  });
  const width = Math.max(0, ...left.map((each) => each.length));
  return flags.map((flag, i) => `${left[i]!.padEnd(width)}  ${flag.help}`).join("\n");
}
