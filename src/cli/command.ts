/** A command is data: name, summary, usage, flags, and what it does. Commands return an exit code and never exit themselves. */
import type { Flag, Parsed } from "./flags.ts";

export interface Command {
  name: string;
  summary: string;
  /** Arguments after the command's name, as help shows them. */
  usage: string;
  flags: Flag[];
  run(args: Parsed): Promise<number>;
}
