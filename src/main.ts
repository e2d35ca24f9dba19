/** argv → command → exit code. The only place that ends the process. */
import { EXIT, messageOf, SurgeError } from "./base/errors.ts";
import { oneLine } from "./base/log.ts";
import { parseWords } from "./cli/command.ts";
import { COMMANDS } from "./cli/commands.ts";
import { nearest } from "./cli/flags.ts";
import { commandHelp, overview } from "./cli/help.ts";
import { isClosedPipe, outputError, writeOut } from "./cli/stdio.ts";
import { ENGINE_CHILD_COMMAND } from "./engine/client.ts";

async function help(name: string | undefined): Promise<number> {
  await writeOut(name === undefined || name === "help" ? overview(COMMANDS) : commandHelp(find(name)));
  return EXIT.ok;
}

function find(name: string) {
  const command = COMMANDS.find((each) => each.name === name);
  if (command !== undefined) return command;
  const guess = nearest(name, [...COMMANDS.map((each) => each.name), "help"]);
  throw new SurgeError(
    "usage",
    `There is no command "${name}".${guess === undefined ? "" : ` Did you mean ${guess}?`} surge help lists them.`,
  );
}

function asksForHelp(words: string[]): boolean {
  const end = words.indexOf("--");
  return (end < 0 ? words : words.slice(0, end)).some((word) => word === "--help" || word === "-h");
}

async function dispatch(words: string[]): Promise<number> {
  const [name, ...rest] = words;
  if (name === undefined || name === "help" || name === "--help" || name === "-h") return help(rest[0]);
  const command = find(name === "--version" ? "version" : name);
  if (asksForHelp(rest)) return help(command.name);
  return await command.run(parseWords(command, rest));
}

/** The failure as one line on standard error, and its exit code. */
function report(thrown: unknown): number {
  if (isClosedPipe(thrown)) return EXIT.ok;
  process.stderr.write(`surge: ${oneLine(messageOf(thrown))}\n`);
  if (thrown instanceof SurgeError) return thrown.exitCode;
  if (process.env["SURGE_DEBUG"] === "1" && thrown instanceof Error) process.stderr.write(`${thrown.stack}\n`);
  return EXIT.internal;
}

/** What fails outside of every promise that somebody waits for ends the same way; at the exit the terminal is given back. */
function catchStrays(): void {
  const end = (thrown: unknown) => process.exit(report(thrown));
  process.on("uncaughtException", end);
  process.on("unhandledRejection", end);
  process.stdout.on("error", (error: Error) => end(outputError(error)));
  /* There is nowhere left to say it. */
  process.stderr.on("error", () => {});
}

async function main(): Promise<void> {
  const words = process.argv.slice(2);
  if (words[0] === ENGINE_CHILD_COMMAND) {
    const { runEngineChild } = await import("./engine/host.ts");
    return runEngineChild();
  }
  catchStrays();
  process.exit(await dispatch(words).catch(report));
}

await main();
