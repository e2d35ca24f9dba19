/** Help, made from the commands' own data. */
import { VERSION } from "../base/version.ts";
import type { Command } from "./command.ts";
import { flagHelp } from "./flags.ts";

export function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => command.name.length), 4);
  const rows = commands.map((command) => `  ${command.name.padEnd(width)}  ${command.summary}`);
  return [
    `surge ${VERSION}: chat with sparse mixture-of-experts models.`,
    "",
    "usage: surge COMMAND [ARGUMENTS]",
    "",
    ...rows,
    `  ${"help".padEnd(width)}  help COMMAND: what a command does and its flags`,
    "",
    'MODEL is "demo" (inside this program), a GGUF file, a Hugging Face folder or a manifest.',
    "",
  ].join("\n");
}

export function commandHelp(command: Command): string {
  const flags = command.flags.length === 0 ? "" : `\n${flagHelp(command.flags)}\n`;
  return `surge ${command.name}: ${command.summary}\n\nusage: surge ${command.name} ${command.usage}\n${flags}`;
}
