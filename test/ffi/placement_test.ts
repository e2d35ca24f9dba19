/** What the engine says it got is what the kernel says of this process. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { SurgeError } from "../../src/base/errors.ts";
import { readMachine } from "../../src/plan/machine.ts";
import { openNative } from "../support/native.ts";

const DEMO = join(import.meta.dir, "../../models/demo/demo-q4_k.gguf");

/** Of the mapping of one file: bytes by smaps' own names. */
function mappingOf(path: string): Record<string, number> {
  const lines = readFileSync("/proc/self/smaps", "utf8").split("\n");
  const at = lines.findIndex((line) => line.endsWith(path));
  const fields = lines.slice(at + 1, at + 24).map((line) => /^(\w+):\s+(\d+) kB$/.exec(line)).filter((found) =>
    found !== null
  );
  return Object.fromEntries(fields.map(([, name, kib]) => [name, Number(kib) * 1024]));
}

function decode(engine: ReturnType<typeof openNative>): void {
  const sequence = engine.openSequence();
  engine.step(Array.from({ length: 32 }, (_, i) => ({ sequence, position: i, token: i + 3, logits: i === 31 })));
  engine.closeSequence(sequence);
}

test("pages of mapped weights agree with smaps; no thread is pinned where none was asked to be", () => {
  const engine = openNative(DEMO);
  decode(engine);
  const { weights, arena, cpus, pinnedThreads } = engine.placement();
  const kernel = mappingOf(DEMO);
  engine.close();
  expect(weights.mappedBytes).toBeGreaterThanOrEqual(kernel["Size"]! - 4096);
  expect(weights.residentBytes).toBe(Math.min(kernel["Rss"]!, weights.mappedBytes));
  expect(weights.fileHugeBytes).toBe(kernel["FilePmdMapped"]!);
  expect(weights.residentBytes).toBeGreaterThan(1 << 20);
  expect(arena.residentBytes).toBeGreaterThan(1 << 16);
  expect(arena.residentBytes).toBeLessThanOrEqual(arena.mappedBytes);
  expect(weights.lockedBytes + arena.lockedBytes).toBe(0);
  expect(cpus).toEqual(readMachine().cpus);
  expect(pinnedThreads).toBe(readMachine().cpus.length === 1 ? 2 : 0);
});

test("copied weights are anonymous, and there whole", () => {
  const engine = openNative(DEMO, { weights: "copied" });
  const { weights } = engine.placement();
  engine.close();
  expect(weights.residentBytes).toBe(weights.mappedBytes);
  expect(weights.fileHugeBytes).toBe(0);
});

test("pinned threads are where the plan says, for the same logits; this thread is free again after each call", () => {
  const before = readMachine().cpus;
  const cpu = before.at(-1)!;
  const logits = [null, [cpu]].map((cpus) => {
    const engine = openNative(DEMO, { cpus, threads: 1, precision: "fast" });
    decode(engine);
    const out = new Float32Array(engine.vocab);
    engine.logits(0, out);
    if (cpus !== null) expect(engine.placement()).toMatchObject({ cpus: [cpu], pinnedThreads: 1 });
    expect(readMachine().cpus).toEqual(before);
    engine.close();
    return out;
  });
  expect(logits[1]).toEqual(logits[0]!);
});

test("the library refuses foreign CPUs by itself", () => {
  const open = () => openNative(DEMO, { cpus: [8191], threads: 1 });
  expect(open).toThrow(SurgeError);
  expect(open).toThrow(
    /^the plan pins a thread to CPU 8191, which is named twice or not among those this process may use \(.+\)\.$/,
  );
});

test("what is locked is all there", () => {
  let engine: ReturnType<typeof openNative>;
  try {
    engine = openNative(DEMO, { mlock: true });
  } catch (thrown) {
    expect(thrown).toMatchObject({ kind: "memory", message: expect.stringContaining("RLIMIT_MEMLOCK") });
    return;
  }
  const { weights, arena } = engine.placement();
  engine.close();
  for (const pages of [weights, arena]) expect(pages.residentBytes).toBe(pages.mappedBytes);
  expect(arena.lockedBytes).toBe(arena.mappedBytes);
  expect(weights.lockedBytes).toBeGreaterThan(0);
});
