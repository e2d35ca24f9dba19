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
/** Spelt in halves, so that this file keeps its own rule. */
const UNFINISHED = new RegExp(`\\b(${["TO" + "DO", "FIX" + "ME"].join("|")})\\b`);
const LEFT_OUT = /(^|\/)(golden|corpus)\/|\.gen\.ts$|tables_[a-z0-9]+\.c$|formats\.def\.h$/;

const CONTROL = /^\s*(\} )?(if|for|while|switch|else|do|try|catch|finally|return|with)\b/;
const TS_HEAD = /\bfunction\b|=> \{$|^\s*(?:[a-z]+ )*[#\w]+(?:<.*>)?\(/;

interface Span {
  /** Lines count from 1. */
  line: number;
  length: number;
}

/** The line that a block opened on line `last` begins with: itself, or where its signature of many lines starts. */
function headLine(lines: string[], last: number): number {
  if (!/^\s*\)/.test(lines[last]!)) return last;
  const indent = /^\s*/.exec(lines[last]!)![0];
  let first = last - 1;
  while (first > 0 && !(lines[first]!.startsWith(indent) && /^\S/.test(lines[first]!.slice(indent.length)))) first--;
  return first;
}

/** Functions, methods and block-bodied arrows of formatted TypeScript: a block ends at the first closing brace of its own indentation. */
function tsFunctions(lines: string[]): Span[] {
  const found: Span[] = [];
  lines.forEach((line, last) => {
    if (!line.endsWith("{")) return;
    const first = headLine(lines, last);
    if (CONTROL.test(lines[first]!) || !TS_HEAD.test(lines[first]!)) return;
    const closing = `${/^\s*/.exec(line)![0]}}`;
    const end = lines.findIndex((each, i) => i > last && each.startsWith(closing));
    if (end > 0) found.push({ line: first + 1, length: end - first + 1 });
  });
  return found;
}

/** Function bodies of C: a bare closing brace in column 0 ends one, and it began at the last line before it with a letter in column 0. */
function cFunctions(lines: string[]): Span[] {
  const found: Span[] = [];
  let first = -1;
  lines.forEach((line, i) => {
    if (/^[A-Za-z_].*\(/.test(line)) first = i;
    if (line === "}" && first >= 0) {
      found.push({ line: first + 1, length: i - first + 1 });
      first = -1;
    }
  });
  return found;
}

/** Faults of one file of the tree, one sentence each; `path` is relative to the repository's root. */
export function faultsOf(path: string, text: string): string[] {
  const faults: string[] = [];
  const lines = text.replace(/\n$/, "").split("\n");
  const limit = path.includes("/kernels/") ? KERNEL_LINES : FUNCTION_LINES;
  if (lines.length > FILE_LINES) faults.push(`${path}: ${lines.length} lines, ${FILE_LINES} at most`);
  if (!path.startsWith("test/") && !/^(#!.*\n)?(\/\*|\/\/|#)/.test(text)) faults.push(`${path}: no head comment`);
  if (/(^|\/)(utils?|helpers?|common|misc)(\.|\/)/i.test(path)) faults.push(`${path}: a name that says nothing`);
  const isTest = path.startsWith("test/");
  const functions = /\.[ch]$/.test(path) ? cFunctions(lines) : path.endsWith(".ts") ? tsFunctions(lines) : [];
  for (const { line, length } of isTest ? [] : functions) {
    if (length > limit) faults.push(`${path}:${line}: a function of ${length} lines, ${limit} at most`);
  }
  lines.forEach((line, i) => {
    if (UNFINISHED.test(line)) faults.push(`${path}:${i + 1}: an unfinished mark`);
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
