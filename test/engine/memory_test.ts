/** What the engine child takes is what the plan said beforehand: anonymous memory, before a model is opened and after it has worked. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readModel } from "../../src/model/source.ts";
import { chatPlan } from "../../src/plan/default_plan.ts";
import { readMachine } from "../../src/plan/machine.ts";
import { collect, greedyRequest, testEngine } from "../support/engine.ts";

const ROOT = join(import.meta.dir, "../..");
/** JavaScript's own heap in the child, and pages of its threads' stacks. */
const TOLERANCE_BYTES = 16 * 1024 * 1024;
const TOLERANCE_SHARE = 0.03;

function anonymousBytes(pid: number): number {
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) * 1024;
}

/** A prompt that fills most of the context, so that keys, values and scratch have really been written. */
async function use(path: string, weights: "mapped" | "copied") {
  const engine = testEngine();
  try {
    await engine.machine();
    const before = anonymousBytes(engine.pid!);
    const manifest = readModel(path);
    const flags = { weights, threads: 2, context: 2048 };
    const { memory } = await engine.open(manifest, chatPlan(manifest.config, { flags, machine: readMachine() }));
    const ids = Array.from({ length: 2000 }, (_, i) => (i * 97) % manifest.config.vocab);
    await collect(engine.generate(greedyRequest(ids, { maxTokens: 8 })));
    return { grownBytes: anonymousBytes(engine.pid!) - before, planBytes: memory.total + memory.copied, memory };
  } finally {
    await engine.close();
  }
}

test.each<[string, "mapped" | "copied"]>([
  ["models/demo/demo-q4_k.gguf", "mapped"],
  ["models/demo/demo-q8_0.gguf", "copied"],
  ["models/demo/hf", "mapped"],
  ["test/golden/models/q35-r2/model.gguf", "mapped"],
  ["test/golden/models/q35-fp8/hf", "copied"],
  ["test/golden/models/q3moe/hf", "mapped"],
  ["test/golden/models/q35-k256/q4_k-q6_k.gguf", "copied"],
])("%s, %s: no more anonymous memory than planned", async (path, weights) => {
  const { grownBytes, planBytes, memory } = await use(join(ROOT, path), weights);
  expect(grownBytes).toBeLessThanOrEqual(planBytes + Math.max(TOLERANCE_SHARE * planBytes, TOLERANCE_BYTES));
  /* Keys and values were written to the last page but one: a plan that counted nothing would not pass. */
  expect(grownBytes).toBeGreaterThan(memory.kv / 2 + memory.copied);
});
