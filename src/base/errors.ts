/**
 * The one error type of the program and its exit codes.
 *
 * Every failure a person may meet is a SurgeError: one sentence that says what, where and what to do. Anything else that
 * reaches main.ts is a bug and ends as exit code 70. This file imports nothing.
 */

/** Exit codes of every command (sysexits numbering where one fits). */
export const EXIT = {
  ok: 0,
  finding: 1,
  usage: 64,
  data: 65,
  missing: 66,
  unavailable: 69,
  internal: 70,
  memory: 71,
  config: 78,
  interrupted: 130,
} as const;

export type ErrorKind = Exclude<keyof typeof EXIT, "ok">;

export class SurgeError extends Error {
  readonly kind: ErrorKind;

  constructor(kind: ErrorKind, message: string) {
    super(message);
    this.name = "SurgeError";
    this.kind = kind;
  }

  get exitCode(): number {
    return EXIT[this.kind];
  }
}

/** The message of anything thrown, without a stack. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
