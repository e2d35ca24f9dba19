/** A command is data: name, summary, usage, flags, and what it does. Commands return an exit code and never exit themselves. */
import { SurgeError } from "../base/errors.ts";
import { type Flag, type Parsed, parseFlags } from "./flags.ts";

export interface Command {
  name: string;
  summary: string;
  /** Arguments after the command's name, as help shows them. */
  usage: string;
  /** Most positional arguments, MODEL included. */
  most: number;
  flags: Flag[];
  run(args: Parsed): Promise<number>;
}

/** The words behind a command's name. An argument too many is a mistake: it would be ignored where somebody meant something. */
export function parseWords(command: Command, words: string[]): Parsed {
  const parsed = parseFlags(words, command.flags);
  const taken = command.most - (parsed.text("model") === undefined ? 0 : 1);
  const extra = parsed.positional[taken];
  if (extra === undefined) return parsed;
  throw new SurgeError("usage", `surge ${command.name} ${command.usage}: "${extra}" is one argument too many.`);
}

/** MODEL, given by its flag or as the first argument, and the arguments behind it. */
export function modelAndRest(args: Parsed): { model: string | undefined; rest: string[] } {
  const named = args.text("model");
  const [model, ...rest] = named === undefined ? args.positional : [named, ...args.positional];
  return { model, rest };
}
