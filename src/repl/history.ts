/** What was typed in earlier sessions, in a private file under the state directory. Losing it is no error. */
import { readFileSync, statSync } from "node:fs";
import { stateFile, writeStateFile } from "../base/state_file.ts";

const LIMIT_BYTES = 1024 * 1024;

const NAME = "history.json";

export function loadHistory(): string[] {
  const file = stateFile(NAME);
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
  const file = stateFile(NAME);
  if (file === undefined) return;
  let kept = [...history];
  while (kept.length > 0 && Buffer.byteLength(JSON.stringify(kept)) > LIMIT_BYTES) {
    kept = kept.slice(Math.ceil(kept.length / 2));
  }
  try {
    writeStateFile(file, JSON.stringify(kept));
  } catch {
    /* A read-only home is no reason to fail: the history lasts as long as the session. */
  }
}
