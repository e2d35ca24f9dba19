/**
 * The repository's rules as code: file and function length, a head comment in every file outside test/, no names that say nothing, no unfinished
 * marks, no paths of one machine. Prints each fault as one line.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const FILE_LINES = 600;
const FUNCTION_LINES = 70;
const KERNEL_LINES = 200;
const FOLDERS = ["src", "ffi", "csrc", "scripts", "test"];
const LEFT_OUT = /(^|\/)(golden|corpus)\/|\.gen\.ts$|tables_[a-z0-9]+\.c$|formats\.def\.h$/;

/** Longest top-level function or method, by brace depth; strings and templates are not parsed, so a brace in one may miscount by a line. */
function functionLengths(lines: string[]): Array<{ line: number; length: number }> {
  const found: Array<{ line: number; length: number }> = [];
  let start = -1;
  let indent = "";
  lines.forEach((line, i) => {
    if (start < 0) {
      const head =
        /^(\s*)(?:export )?(?:default )?(?:static |async |readonly )*(?:function\b|[\w#*<>[\], ]+\([^;]*$|#?\w+\(.*\)[^;]*\{$)/
          .exec(line);
      if (
        head !== null && line.trimEnd().endsWith("{") &&
        !/^\s*(if|for|while|switch|else|return|describe|test)\b/.test(line)
      ) {
        start = i;
        indent = head[1]!;
      }
    } else if (line.startsWith(`${indent}}`)) {
      found.push({ line: start + 1, length: i - start + 1 });
      start = -1;
    }
  });
  return found;
}

export function faultsOf(path: string, text: string): string[] {
  const faults: string[] = [];
  const lines = text.split("\n");
  const limit = path.includes("/kernels/") ? KERNEL_LINES : FUNCTION_LINES;
  if (lines.length > FILE_LINES) faults.push(`${path}: ${lines.length} lines, ${FILE_LINES} at most`);
  if (!path.startsWith("test/") && !/^(#!.*\n)?(\/\*|\/\/|#)/.test(text)) faults.push(`${path}: no head comment`);
  if (/(^|\/)(utils?|helpers?|common|misc)(\.|\/)/i.test(path)) faults.push(`${path}: a name that says nothing`);
  const isTest = path.startsWith("test/");
  for (const { line, length } of isTest ? [] : functionLengths(lines)) {
    if (length > limit) faults.push(`${path}:${line}: a function of ${length} lines, ${limit} at most`);
  }
  lines.forEach((line, i) => {
    const mark = new RegExp(`\\b(${["TO", "FIX"].map((each) => each + (each === "TO" ? "DO" : "ME")).join("|")})\\b`);
    if (mark.test(line)) faults.push(`${path}:${i + 1}: an unfinished mark`);
    if (!isTest && /["' ]\/(work|root|home\/\w+)\//.test(line)) faults.push(`${path}:${i + 1}: a path of one machine`);
  });
  return faults;
}

if (import.meta.main) {
  const root = join(import.meta.dir, "..");
  const all = FOLDERS.flatMap((folder) =>
    (readdirSync(join(root, folder), { recursive: true }) as string[])
      .filter((name) => /\.(ts|c|h|sh)$/.test(name))
      .map((name) => `${folder}/${name}`)
  );
  const faults = all.filter((path) => !LEFT_OUT.test(path)).flatMap((path) =>
    faultsOf(path, readFileSync(join(root, path), "utf8"))
  );
  for (const fault of faults) process.stderr.write(`${fault}\n`);
  process.exit(faults.length > 0 ? 1 : 0);
}
