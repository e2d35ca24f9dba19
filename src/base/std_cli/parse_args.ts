/**
 * parseArgs with the option names and result shape of @std/cli/parse-args, as far as this program uses them. Imported under that
 * specifier everywhere; the real package takes over by the `paths` line of tsconfig.json (and the same line of deno.json).
 */

export interface ParseOptions {
  boolean?: readonly string[];
  /** "_" may be among them, as the original needs it to leave positional digits alone; here they are always text. */
  string?: readonly string[];
  /** Repeatable: every value is kept. */
  collect?: readonly string[];
  /** `--no-NAME` sets NAME to false. */
  negatable?: readonly string[];
  alias?: Readonly<Record<string, readonly string[]>>;
  default?: Readonly<Record<string, unknown>>;
  /** Everything after the first positional is positional. */
  stopEarly?: boolean;
  /** What follows `--` goes into args["--"] instead of among the positional arguments. */
  "--"?: boolean;
  /** Called for flags that are not declared and, without `key`, for positional arguments; returning false drops them. */
  unknown?: (argument: string, key?: string, value?: unknown) => unknown;
}

export interface Args {
  /** Positional arguments. */
  _: string[];
  [name: string]: unknown;
}

type Kind = "boolean" | "string";

class Parser {
  readonly args: Args = { _: [] };
  readonly #options: ParseOptions;
  readonly #names = new Map<string, string>();

  constructor(options: ParseOptions) {
    this.#options = options;
    const declared = [...options.boolean ?? [], ...options.string ?? [], ...options.collect ?? []];
    for (const name of declared.filter((each) => each !== "_")) this.#names.set(name, name);
    for (const [name, aliases] of Object.entries(options.alias ?? {})) {
      for (const alias of aliases) this.#names.set(alias, name);
    }
  }

  #kind(name: string): Kind {
    return this.#options.boolean?.includes(name) ? "boolean" : "string";
  }

  #set(name: string, value: unknown): void {
    const keys = [name, ...this.#options.alias?.[name] ?? []];
    const list = this.#options.collect?.includes(name);
    for (const key of keys) this.args[key] = list ? [...(this.args[key] as unknown[] | undefined) ?? [], value] : value;
  }

  /** One `--name`, `--name=value` or `-n`; a flag behind it is not its value. Returns how many following words it used. */
  option(word: string, following: string | undefined): number {
    const next = following === undefined || isFlag(following) ? undefined : following;
    const [flag, inline] = splitAt(word.replace(/^--?/, ""));
    const negated = flag.startsWith("no-") && this.#options.negatable?.includes(flag.slice(3))
      ? flag.slice(3)
      : undefined;
    const name = this.#names.get(negated ?? flag);
    if (name === undefined) {
      if (this.#options.unknown?.(word, flag, inline) !== false) this.args[flag] = inline ?? true;
      return 0;
    }
    if (negated !== undefined) this.#set(name, false);
    else if (this.#kind(name) === "boolean") this.#set(name, inline === undefined ? true : inline !== "false");
    else if (inline !== undefined) this.#set(name, inline);
    else if (next !== undefined) this.#set(name, next);
    else this.#set(name, "");
    return negated === undefined && inline === undefined && this.#kind(name) === "string" && next !== undefined ? 1 : 0;
  }

  positional(word: string): void {
    if (this.#options.unknown?.(word) !== false) this.args._.push(word);
  }

  fillDefaults(): void {
    for (const name of this.#options.boolean ?? []) {
      if (this.args[name] === undefined && !(name in (this.#options.default ?? {}))) this.#set(name, false);
    }
    for (const [name, value] of Object.entries(this.#options.default ?? {})) {
      if (this.args[name] === undefined) {
        for (const key of [name, ...this.#options.alias?.[name] ?? []]) this.args[key] = value;
      }
    }
  }
}

/** Negative numbers and a lone `-` are values. */
function isFlag(word: string): boolean {
  return word.startsWith("-") && word !== "-" && !/^-\.?\d/.test(word);
}

function splitAt(text: string): [string, string | undefined] {
  const at = text.indexOf("=");
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** Parses words such as process.argv.slice(2). A lone `-` and everything after `--` are positional. */
export function parseArgs(words: readonly string[], options: ParseOptions = {}): Args {
  const parser = new Parser(options);
  if (options["--"]) parser.args["--"] = [];
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if (word === "--") {
      (options["--"] ? parser.args["--"] as string[] : parser.args._).push(...words.slice(i + 1));
      break;
    }
    if (isFlag(word)) {
      i += parser.option(word, words[i + 1]);
      continue;
    }
    parser.positional(word);
    if (!options.stopEarly) continue;
    parser.args._.push(...words.slice(i + 1));
    break;
  }
  parser.fillDefaults();
  return parser.args;
}
