/**
 * Diagnostics for the person who runs the program: one line each, on standard error only, standard output is the answer's.
 * The level comes from SURGE_LOG (error, warn, info, debug); an unknown word means warn.
 */

const LEVELS = ["error", "warn", "info", "debug"] as const;
export type LogLevel = typeof LEVELS[number];

export type Log = Record<LogLevel, (message: string) => void>;

export function logLevel(text: string | undefined): LogLevel {
  return LEVELS.find((level) => level === text?.toLowerCase()) ?? "warn";
}

/** Line breaks and control characters inside a message are escaped: a message is one line and never drives the terminal. */
export function oneLine(message: string): string {
  // deno-lint-ignore no-control-regex
  return message.trim().replace(/[\x00-\x1f\x7f-\x9f]+/g, " ");
}

export function createLog(level: LogLevel, write: (line: string) => void): Log {
  const shown = LEVELS.indexOf(level);
  const at = (name: LogLevel) => (message: string) => {
    if (LEVELS.indexOf(name) <= shown) write(`surge: ${name}: ${oneLine(message)}\n`);
  };
  return { error: at("error"), warn: at("warn"), info: at("info"), debug: at("debug") };
}

export const log: Log = createLog(logLevel(process.env["SURGE_LOG"]), (line) => void process.stderr.write(line));
