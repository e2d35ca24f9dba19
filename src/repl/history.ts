/** What was typed in earlier sessions, in a private file under the state directory. Losing it is no error. */
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const LIMIT_BYTES = 1024 * 1024;

function path(): string | undefined {
  const state = process.env["XDG_STATE_HOME"] || (process.env["HOME"] && join(process.env["HOME"], ".local/state"));
  return state ? join(state, "surge/history.json") : undefined;
}

export function loadHistory(): string[] {
  const file = path();
  try {
    if (file === undefined) return [];
    const facts = statSync(file);
    if (!facts.isFile() || facts.size > LIMIT_BYTES) return [];
    const entries: unknown = JSON.parse(readFileSync(file, "utf8"));
    return Array.isArray(entries) ? entries.filter((entry) => typeof entry === "string") : [];
  } catch {
    return [];
  }
}

export function saveHistory(history: readonly string[]): void {
  const file = path();
  if (file === undefined) return;
  let kept = [...history];
  while (kept.length > 0 && Buffer.byteLength(JSON.stringify(kept)) > LIMIT_BYTES) {
    kept = kept.slice(Math.ceil(kept.length / 2));
  }
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    /* Renamed into place: two chats that end together leave one whole history. */
    const part = `${file}.${process.pid}`;
    writeFileSync(part, JSON.stringify(kept), { mode: 0o600 });
    renameSync(part, file);
  } catch {
    /* A read-only home is no reason to fail: the history lasts as long as the session. */
  }
}
