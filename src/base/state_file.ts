/**
 * Small files that the program keeps for itself between runs, under XDG's state directory: what belongs to this machine and is not to be
 * carried to another one with a person's configuration. Knows where they are and how they are written; readers judge what is in them.
 */
import { randomBytes } from "node:crypto";
import {
  accessSync,
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, isAbsolute, join } from "node:path";

/** Where a file of this name is kept; undefined where neither XDG_STATE_HOME nor HOME says so. Relative values do not count (XDG). */
export function stateFile(name: string, env: Record<string, string | undefined> = process.env): string | undefined {
  const { XDG_STATE_HOME: state, HOME: home } = env;
  if (state && isAbsolute(state)) return join(state, "surge", name);
  return home && isAbsolute(home) ? join(home, ".local/state/surge", name) : undefined;
}

/** Makes the folder, which is the person's own; throws the system's error where it cannot be made or written. */
export function makeStateFolder(file: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  accessSync(dirname(file), constants.W_OK | constants.X_OK);
}

function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * Renamed into place, so that a reader sees the old file or the new one whole, also after a loss of power. A link at `file` is replaced
 * and what it points to is left alone. Throws the system's error and leaves nothing behind.
 */
export function writeStateFile(file: string, text: string): void {
  makeStateFolder(file);
  const part = `${file}.${randomBytes(6).toString("hex")}.part`;
  const fd = openSync(part, "wx", 0o600);
  try {
    try {
      writeFileSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(part, file);
  } catch (thrown) {
    rmSync(part, { force: true });
    throw thrown;
  }
  syncFolder(dirname(file));
}
