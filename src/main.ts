/** argv → command → exit code. The only place that ends the process. */
import { EXIT, messageOf, SurgeError } from "./base/errors.ts";
import { COMMANDS } from "./cli/commands.ts";
import { nearest, parseFlags } from "./cli/flags.ts";
import { commandHelp, overview } from "./cli/help.ts";
import { writeOut } from "./cli/stdio.ts";
import { ENGINE_CHILD_COMMAND } from "./engine/client.ts";

async function help(name: string | undefined): Promise<number> {
  if (name === undefined || name === "help") {
    await writeOut(overview(COMMANDS));
    return EXIT.ok;
  }
  await writeOut(commandHelp(find(name)));
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

async function dispatch(words: string[]): Promise<number> {
  const [name, ...rest] = words;
  if (name === undefined || name === "help" || name === "--help" || name === "-h") return help(rest[0]);
  if (name === "--version") return find("version").run(parseFlags([], find("version").flags));
  const command = find(name);
  const end = rest.indexOf("--");
  if ((end < 0 ? rest : rest.slice(0, end)).some((word) => word === "--help" || word === "-h")) return help(name);
  return await command.run(parseFlags(rest, command.flags));
}

function report(thrown: unknown): number {
  if ((thrown as NodeJS.ErrnoException).code === "EPIPE") return EXIT.ok;
  process.stderr.write(`surge: ${messageOf(thrown)}\n`);
  if (thrown instanceof SurgeError) return thrown.exitCode;
  if (process.env["SURGE_DEBUG"] === "1" && thrown instanceof Error) process.stderr.write(`${thrown.stack}\n`);
  return EXIT.internal;
}

async function main(): Promise<void> {
  const words = process.argv.slice(2);
  if (words[0] === ENGINE_CHILD_COMMAND) {
    const { runEngineChild } = await import("./engine/host.ts");
    return runEngineChild();
  }
  /* Whoever reads our output may leave early (head -1): that is no failure. */
  process.stdout.on(
    "error",
    (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.internal),
  );
  process.exit(await dispatch(words).catch(report));
}

await main();
