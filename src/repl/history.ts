/** What was typed in earlier sessions, in a private file under the state directory. Losing it is no error. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const LIMIT_BYTES = 1024 * 1024;

function path(): string | undefined {
  const state = process.env["XDG_STATE_HOME"] || (process.env["HOME"] && join(process.env["HOME"], ".local/state"));
  return state ? join(state, "surge/history.json") : undefined;
}

export function loadHistory(): string[] {
  const file = path();
  try {
    const text = file === undefined ? "[]" : readFileSync(file, "utf8");
    const entries: unknown = text.length > LIMIT_BYTES ? [] : JSON.parse(text);
    return Array.isArray(entries) ? entries.filter((entry) => typeof entry === "string") : [];
  } catch {
    return [];
  }
}

export function saveHistory(history: readonly string[]): void {
  const file = path();
  if (file === undefined) return;
  let kept = [...history];
  while (kept.length > 0 && JSON.stringify(kept).length > LIMIT_BYTES) kept = kept.slice(Math.ceil(kept.length / 2));
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, JSON.stringify(kept), { mode: 0o600 });
  } catch {
    /* A read-only home is no reason to fail: the history lasts as long as the session. */
  }
}
