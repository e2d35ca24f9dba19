/** The client against a real engine child with a real (tiny) model. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SurgeError } from "../../src/base/errors.ts";
import type { EngineClient } from "../../src/engine/client.ts";
import { readModel } from "../../src/model/source.ts";
import { collect, enginePlan, GOLDEN_FOLDER, GOLDEN_MODEL, greedyRequest, testEngine } from "../support/engine.ts";
import { difference, goldenModels, readFloats } from "../support/golden.ts";

const manifest = readModel(GOLDEN_MODEL);
const { cases } = goldenModels().find((model) => model.path === GOLDEN_MODEL)!;
const folder = mkdtempSync(join(tmpdir(), "surge-test-"));
let engine: EngineClient;

beforeAll(async () => {
  engine = testEngine();
  await engine.open(manifest, enginePlan());
});

afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

async function errorOf(promise: Promise<unknown>): Promise<SurgeError> {
  const thrown = await promise.then(() => undefined, (error: unknown) => error);
  expect(thrown).toBeInstanceOf(SurgeError);
  return thrown as SurgeError;
}

test("the child's greedy answers are the golden ones", async () => {
  for (const { ids, greedy } of cases.cases) {
    const { tokens, reason, stats } = await collect(engine.generate(greedyRequest(ids, { maxTokens: greedy.length })));
    expect(tokens).toEqual(greedy);
    expect(reason).toBe("length");
    expect(stats).toMatchObject({ promptTokens: ids.length, answerTokens: greedy.length });
  }
});

test("a conversation that goes on answers as a fresh one does", async () => {
  const first = cases.cases.find((one) => one.ids.length === 65)!.ids;
  const { tokens } = await collect(engine.generate(greedyRequest(first)));
  const longer = [...first, ...tokens, 3, 1, 4, 1, 5];
  const kept = await collect(engine.generate(greedyRequest(longer)));
  const fresh = await collect(engine.generate(greedyRequest(longer, { conversation: "another" })));
  expect(kept.stats.cachedTokens).toBe(72);
  expect(fresh.stats.cachedTokens).toBe(0);
  expect(kept.tokens).toEqual(fresh.tokens);
});

test("the same seed says the same, another seed something else", async () => {
  const say = async (seed: number) => {
    const request = greedyRequest([5, 6, 7], { maxTokens: 32 });
    return (await collect(engine.generate({ ...request, sampler: { ...request.sampler, temperature: 1, seed } })))
      .tokens;
  };
  expect(await say(1)).toEqual(await say(1));
  expect(await say(1)).not.toEqual(await say(2));
});

test("logits of every position and of the last one are the golden ones", async () => {
  const { ids, logits } = cases.all_positions;
  const path = join(folder, "out.f32");
  expect(await engine.logits({ ids, all: true, path })).toEqual({ rows: ids.length, vocab: manifest.config.vocab });
  const all = readFloats(folder, { file: "out.f32", shape: [] });
  expect(difference(all, readFloats(GOLDEN_FOLDER, logits)).max).toBeLessThanOrEqual(2e-3);
  expect(await engine.logits({ ids, all: false, path })).toMatchObject({ rows: 1 });
  expect(readFileSync(path)).toEqual(Buffer.from(all.slice(-manifest.config.vocab).buffer));
});

test("logits that cannot be written or computed say so and leave no file", async () => {
  const missing = await errorOf(engine.logits({ ids: [1], all: false, path: join(folder, "no", "where.f32") }));
  expect(missing).toMatchObject({
    kind: "missing",
    message: `${join(folder, "no", "where.f32")} cannot be written (ENOENT).`,
  });
  const path = join(folder, "never.f32");
  const full = await errorOf(engine.logits({ ids: new Array(513).fill(1), all: false, path }));
  expect(full.kind).toBe("usage");
  expect(full.message).toContain("513 tokens and the context holds 512");
  expect(existsSync(path)).toBe(false);
});

test("a full context is an error with both counts before, and length during the answer", async () => {
  const error = await errorOf(collect(engine.generate(greedyRequest(new Array(512).fill(1)))));
  expect(error).toMatchObject({ kind: "usage", exitCode: 64 });
  expect(error.message).toContain("512 tokens and the context holds 512");
  const { reason, stats } = await collect(engine.generate(greedyRequest(new Array(500).fill(1), { maxTokens: 1000 })));
  expect(reason).toBe("length");
  expect(stats.answerTokens).toBe(13);
});

test("cancelling in prefill, in decode, before the start and by leaving the loop", async () => {
  const cancelled = async (begin: (stop: AbortController) => Parameters<EngineClient["generate"]>[1]) => {
    const stop = new AbortController();
    return await collect(engine.generate(greedyRequest(new Array(400).fill(2), { maxTokens: 1 << 20 }), begin(stop)));
  };
  const early = await cancelled((stop) => ({ signal: stop.signal, onPrefill: () => stop.abort() }));
  expect(early.reason).toBe("cancelled");
  expect((await cancelled(() => ({ signal: AbortSignal.abort() }))).reason).toBe("cancelled");
  const generation = engine.generate(greedyRequest([1], { maxTokens: 1 << 20 }));
  for await (const _ of generation) break;
  expect((await generation.result).reason).toBe("cancelled");
  const { ids, greedy } = cases.cases[3]!;
  expect((await collect(engine.generate(greedyRequest(ids, { maxTokens: greedy.length })))).tokens).toEqual(greedy);
});

/** A step of prefill alone may take seconds: that it runs in slices is what this sees. */
test("a cancel in a long prefill is honoured within 250 ms", async () => {
  const own = testEngine();
  try {
    const demo = readModel(join(import.meta.dir, "../../models/demo/demo-q4_k.gguf"));
    await own.open(demo, enginePlan({ context: 4096, stepRows: 512 }));
    const ids = Array.from({ length: 4000 }, (_, i) => 1 + i % 1000);
    const stop = new AbortController();
    let cancelledMs = 0;
    let last = 0;
    const onPrefill = (done: number) => {
      last = done;
      cancelledMs ||= performance.now();
      stop.abort();
    };
    const { reason, stats } = await collect(own.generate(greedyRequest(ids), { signal: stop.signal, onPrefill }));
    expect(performance.now() - cancelledMs).toBeLessThan(250);
    expect({ reason, answerTokens: stats.answerTokens }).toEqual({ reason: "cancelled", answerTokens: 0 });
    expect(last).toBeLessThan(ids.length / 2);
  } finally {
    await own.close();
  }
});

test("the terminal's interrupt does not end the child", async () => {
  const generation = engine.generate(greedyRequest([1], { maxTokens: 100 }));
  const { pid } = engine;
  process.kill(pid!, "SIGINT");
  expect((await collect(generation)).tokens).toHaveLength(100);
  expect(engine.pid).toBe(pid);
});

test("what does not fit is refused with numbers before it is taken, and the child lives on", async () => {
  const own = testEngine();
  const error = await errorOf(own.open(manifest, enginePlan(), { memoryLimitBytes: 1024 * 1024 }));
  expect(error).toMatchObject({ kind: "memory", exitCode: 71 });
  expect(error.message).toMatch(
    /^Not enough memory: [\d.]+ MiB are needed \(KV .+\) and 1\.0 MiB are available; .+\.$/,
  );
  const small = await own.open(manifest, enginePlan(), { memoryLimitBytes: 40 * 1024 * 1024 });
  expect(small.memory.mapped).toBe(manifest.files[0]!.bytes);
  expect(small.warning).toBeUndefined();
  await own.close();
});

test("a plan for a device that is not there is refused in one sentence", async () => {
  const own = testEngine();
  const error = await errorOf(own.open(manifest, enginePlan({ devices: ["cpu", "npu:0"] })));
  expect(error).toMatchObject({ kind: "config", exitCode: 78 });
  expect(error.message).toMatch(/^[^.\n]+\.$/);
  await own.close();
});

test("a killed child is a clear error for what was running, and the model opens again", async () => {
  const own = testEngine();
  await own.open(manifest, enginePlan({ context: 1 << 20 }));
  const generation = own.generate(greedyRequest([1], { maxTokens: 1 << 20 }));
  const reading = (async () => {
    for await (const _ of generation) process.kill(own.pid!, "SIGKILL");
  })();
  const error = await errorOf(reading);
  expect(error.kind).toBe("memory");
  expect(error.message).toContain("was killed, probably because the machine ran out of memory");
  expect(own.pid).toBeUndefined();
  expect((await errorOf(collect(own.generate(greedyRequest([1]))))).kind).toBe("unavailable");
  await own.open(manifest, enginePlan());
  const { ids, greedy } = cases.cases[2]!;
  expect((await collect(own.generate(greedyRequest(ids, { maxTokens: greedy.length })))).tokens).toEqual(greedy);
  await own.close();
});

test("a file that shrinks while it is in use is named", async () => {
  const path = join(folder, "shrinks.gguf");
  copyFileSync(GOLDEN_MODEL, path);
  const own = testEngine();
  await own.open(readModel(path), enginePlan({ context: 1 << 20 }));
  const generation = own.generate(greedyRequest([1], { maxTokens: 1 << 20 }));
  const reading = (async () => {
    for await (const _ of generation) truncateSync(path, 4096);
  })();
  const error = await errorOf(reading);
  expect(error.kind).toBe("data");
  expect(error.message).toBe(`${path} changed while it was in use: it had 1002080 bytes and has 4096.`);
  await own.close();
});

test("closing ends the child and fails what was running", async () => {
  const own = testEngine();
  await own.open(manifest, enginePlan({ context: 1 << 20 }));
  const { pid } = own;
  const generation = own.generate(greedyRequest([1], { maxTokens: 1 << 20 }));
  await own.close();
  expect((await errorOf(generation.result)).message).toBe("The engine was closed.");
  expect(existsSync(`/proc/${pid}`)).toBe(false);
  await own.close();
});

test("asking before a model is open is an error, not a wait", async () => {
  const own = testEngine();
  expect((await errorOf(collect(own.generate(greedyRequest([1]))))).kind).toBe("unavailable");
  expect((await errorOf(own.logits({ ids: [1], all: false, path: join(folder, "x") }))).kind).toBe("unavailable");
  await own.close();
});
