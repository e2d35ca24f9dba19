/** The crossing itself, on a real engine: biases, account, and what a person reads when files or plans are wrong. Logits: golden_test. */
import { afterAll, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync, truncateSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { measure, NativeEngine } from "../../ffi/engine.ts";
import { readModel } from "../../src/model/source.ts";
import { goldenModels } from "../support/golden.ts";
import { GREEDY, openNative, testLibrary, testPlan } from "../support/native.ts";
import { thrownBy } from "../support/thrown.ts";

const PATH = goldenModels().find((model) => model.name === "q35-r2 model")!.path;
const folder = mkdtempSync(join(tmpdir(), "surge-engine-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the account is the engine's: parts add up, and more context costs more", () => {
  const manifest = readModel(PATH);
  const small = measure(testLibrary(), manifest, testPlan({ context: 64 }));
  const large = measure(testLibrary(), manifest, testPlan({ context: 128 }));
  const { kv, states, scratch, vectors, tables, total, mapped } = small;
  expect(kv + states + scratch + vectors + tables).toBe(total);
  expect(mapped).toBe(manifest.files.reduce((sum, file) => sum + file.bytes, 0));
  expect(large.kv).toBeGreaterThan(1.9 * kv);
  const half = measure(testLibrary(), manifest, testPlan({ context: 128, kv: "f16" }));
  expect(half.kv).toBeLessThan(0.6 * large.kv);
});

test("as many logit biases as allowed arrive, whatever the collector does; one more is refused", () => {
  const engine = openNative(PATH);
  const sequence = engine.openSequence();
  engine.step([{ sequence, position: 0, token: 1, logits: true }]);
  const choose = (logitBias: Array<{ token: number; bias: number }>) =>
    engine.sample(0, sequence, { ...GREEDY, logitBias, answerFrom: 0, draw: 0 });
  for (const token of [0, 17, engine.vocab - 1]) {
    Bun.gc(true);
    expect(choose([{ token, bias: 1000 }])).toBe(token);
    const many = Array.from({ length: 1023 }, () => ({ token: (token + 1) % engine.vocab, bias: -1 }));
    expect(choose([...many, { token, bias: 5000 }])).toBe(token);
  }
  const unbiased = choose([]);
  expect(choose([{ token: unbiased, bias: -1000 }])).not.toBe(unbiased);
  expect(choose([])).toBe(unbiased);
  const past = Array.from({ length: 1025 }, () => ({ token: 0, bias: 0 }));
  expect(thrownBy(() => choose(past)).message).toMatch(/1025 logit biases/);
  engine.close();
});

test("a file that changed since the manifest is named: time, size, gone", () => {
  const path = join(folder, "model.gguf");
  copyFileSync(PATH, path);
  const manifest = readModel(path);
  const open = () => new NativeEngine(testLibrary(), manifest, testPlan());
  open().close();
  utimesSync(path, 1, 1);
  let thrown = thrownBy(open);
  expect(thrown.kind).toBe("data");
  expect(thrown.message).toBe(`${path} was changed or replaced since it was read first.`);
  truncateSync(path, 1000);
  thrown = thrownBy(open);
  expect(thrown.kind).toBe("data");
  expect(thrown.message).toContain(`${path} has 1000 bytes now`);
  rmSync(path);
  expect(thrownBy(open).kind).toBe("missing");
});

test("a tensor of the wrong shape is named with its file", () => {
  const manifest = readModel(PATH);
  const config = { ...manifest.config, vocab: manifest.config.vocab - 1 };
  const thrown = thrownBy(() => new NativeEngine(testLibrary(), { ...manifest, config }, testPlan()));
  expect(thrown.kind).toBe("data");
  expect(thrown.message).toMatch(/q35-r2.*: tensor token_embd\.weight has 288 rows/);
});

test.each(["Q4_9", "constructor"])("a type called %s is not supported, and the tensor is named", (dtype) => {
  const manifest = readModel(PATH);
  const tensors = manifest.tensors.map((tensor, i) => i === 0 ? { ...tensor, dtype } : tensor);
  const thrown = thrownBy(() => new NativeEngine(testLibrary(), { ...manifest, tensors }, testPlan()));
  expect(thrown.kind).toBe("data");
  expect(thrown.message).toBe(`Tensor ${tensors[0]!.name} has type ${dtype}, which is not supported.`);
});

test("an NPU in the plan of a machine without one is a wrong plan", () => {
  const thrown = thrownBy(() => openNative(PATH, { devices: ["cpu", "npu:0"] }));
  expect(thrown.kind).toBe("config");
  expect(thrown.message).toBe("the plan asks for 1 NPU(s) and this machine has none.");
});

test("a closed engine refuses and closes twice", () => {
  const engine = openNative(PATH);
  engine.close();
  engine.close();
  expect(thrownBy(() => engine.openSequence()).kind).toBe("internal");
});
