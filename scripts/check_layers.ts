/** Imports go down only. TypeScript by folder of src/, C by folder of csrc/; ffi/ is src/engine/host.ts's alone. Prints what goes up. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";

/** Lower number, lower layer; equal numbers are strangers. */
const TS_LAYERS: Record<string, number> = {
  base: 0,
  model: 1,
  plan: 1,
  text: 1,
  sched: 2,
  engine: 3,
  repl: 4,
  tools: 4,
  cli: 5,
  main: 6,
};
/** Strangers that may see each other's types or plain functions: what a plan is made from. */
const TS_ALLOWED = new Set(["plan>model", "engine>ffi"]);
const C_LAYERS: Record<string, number> = {
  base: 0,
  os: 1,
  abi: 1,
  quant: 2,
  store: 3,
  sample: 4,
  npu: 4,
  cpu: 4,
  model: 5,
  engine: 6,
  api: 7,
};
const FFI_MAY_SEE = ["base", "model", "plan", "engine/protocol"];

function files(folder: string, ending: RegExp): string[] {
  return (readdirSync(folder, { recursive: true }) as string[]).filter((name) => ending.test(name)).map((name) =>
    join(folder, name)
  ).sort();
}

function tsTarget(file: string, specifier: string): string | undefined {
  return specifier.startsWith(".") ? normalize(join(dirname(file), specifier)) : undefined;
}

function layerOf(path: string): string {
  const parts = path.split("/");
  return parts[0] === "ffi" ? "ffi" : parts.length === 2 ? parts[1]!.replace(/\.ts$/, "") : parts[1]!;
}

function tsFault(from: string, to: string): string | undefined {
  const [a, b] = [layerOf(from), layerOf(to)];
  if (!/^(src|ffi)\//.test(to)) return undefined;
  if (b === "ffi" && a !== "ffi") {
    return from === "src/engine/host.ts" ? undefined : "only src/engine/host.ts may import ffi/";
  }
  if (a === "ffi") {
    return b === "ffi" || FFI_MAY_SEE.some((each) => to.startsWith(`src/${each}`))
      ? undefined
      : `ffi may not import ${b}`;
  }
  if (a === b || TS_ALLOWED.has(`${a}>${b}`)) return undefined;
  const [high, low] = [TS_LAYERS[a], TS_LAYERS[b]];
  if (high === undefined || low === undefined) return `unknown layer ${high === undefined ? a : b}`;
  return low < high ? undefined : `${a} may not import ${b}`;
}

/** Imports of a tree that go up, one sentence each. `root` holds src/, ffi/ and csrc/. */
export function findFaults(root: string): string[] {
  const faults: string[] = [];
  for (const file of [...files(join(root, "src"), /\.ts$/), ...files(join(root, "ffi"), /\.ts$/)]) {
    const from = relative(root, file);
    for (const match of readFileSync(file, "utf8").matchAll(/(?:\bfrom|\bimport|\bimport\()\s*"([^"]+)"/g)) {
      const target = tsTarget(from, match[1]!);
      const fault = target === undefined ? undefined : tsFault(from, target);
      if (fault !== undefined) faults.push(`${from}: ${fault} (${match[1]})`);
    }
  }
  for (const file of files(join(root, "csrc"), /\.[ch]$/)) {
    const from = relative(join(root, "csrc"), file);
    const own = from.split("/")[0]!.replace(/\.c$/, "");
    for (const match of readFileSync(file, "utf8").matchAll(/^#include "([^"/]+)\/[^"]+"/gm)) {
      const [high, low] = [C_LAYERS[own], C_LAYERS[match[1]!]];
      if (own === match[1] || own === "include" || from === "abi/dump.c") continue;
      if (high === undefined || low === undefined || low >= high) {
        faults.push(`csrc/${from}: ${own} may not include ${match[1]}`);
      }
    }
  }
  return faults;
}

if (import.meta.main) {
  const faults = findFaults(join(import.meta.dir, ".."));
  for (const fault of faults) process.stderr.write(`${fault}\n`);
  process.exit(faults.length > 0 ? 1 : 0);
}
