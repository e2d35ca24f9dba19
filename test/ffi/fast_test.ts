/**
 * precision fast against the references: 8-bit activations within llama.cpp's own distance, the same bits for any threads, neighbours
 * and cuts, on every set of kernels that this processor runs. Tolerances: test/golden/models/README.md.
 */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { difference, goldenModels, readFloats } from "../support/golden.ts";
import { feed, openNative } from "../support/native.ts";

const MODELS = goldenModels().filter((model) => model.name.startsWith("q35-k256"));
const MAIN = join(import.meta.dir, "../../src/main.ts");
const ISAS = process.arch === "x64" ? ["ref", "avx2", "avx512vnni"] : ["ref", "neon_dotprod", "neon_i8mm"];

function sameBits(a: Float32Array, b: Float32Array): boolean {
  return Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));
}

test("the three mixes are there", () => expect(MODELS.length).toBe(3));

describe.each(MODELS)("$name", (model) => {
  test.each([["at once", [70]], ["token by token", [1]], ["7s", [7]]])("every position, %s", (_how, pieces) => {
    const engine = openNative(model.path, { precision: "fast" });
    const { ids, logits } = model.cases.all_positions;
    const { max, rms } = difference(feed(engine, ids, { pieces }), readFloats(model.folder, logits));
    expect(max).toBeLessThanOrEqual(0.5);
    expect(rms).toBeLessThanOrEqual(0.1);
    expect(rms).toBeGreaterThan(1e-4); /* or it was not computed in 8 bits */
    engine.close();
  });

  test("threads, cuts and neighbours do not change a bit", () => {
    const { ids } = model.cases.all_positions;
    const engines = [1, 2, 3, 7].map((threads) => openNative(model.path, { precision: "fast", threads }));
    const want = feed(engines[0]!, ids);
    for (const engine of engines) {
      for (const pieces of [[70], [1], [13], [40, 1, 29]]) {
        expect(sameBits(feed(engine, ids, { pieces }), want)).toBe(true);
      }
      const [a, b] = [engine.openSequence(), engine.openSequence()];
      const row = (sequence: number, position: number) => ({ sequence, position, token: ids[position]!, logits: true });
      const out = new Float32Array(engine.vocab);
      engine.step(ids.slice(0, 5).map((_, i) => row(a, i)));
      for (let i = 0; i < 5; i++) {
        engine.step([row(a, 5 + i), row(b, i)]);
        engine.logits(1, out);
        expect(sameBits(out, want.subarray(i * engine.vocab, (i + 1) * engine.vocab))).toBe(true);
      }
      engine.close();
    }
  });
});

/** In a process of its own: the environment is read by C. */
function logitsOf(isa: string, precision: string): { logits?: Float32Array; stderr: string } {
  const folder = mkdtempSync(join(tmpdir(), "surge-isa-"));
  const out = join(folder, "logits.f32");
  const { ids } = MODELS[0]!.cases.all_positions;
  const words = ["logits", MODELS[0]!.path, "--tokens", ids.join(","), "-o", out, "--all", "--precision", precision];
  const { stderr, exitCode } = Bun.spawnSync([process.execPath, MAIN, ...words], {
    env: { ...process.env, SURGE_ISA: isa },
  });
  try {
    return { stderr: stderr.toString(), ...(exitCode === 0 && { logits: new Float32Array(readFileSync(out).buffer) }) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("copied weights give the bits of mapped ones", () => {
  const { ids } = MODELS[0]!.cases.all_positions;
  const [mapped, copied] = (["mapped", "copied"] as const).map((weights) => {
    const engine = openNative(MODELS[0]!.path, { precision: "fast", weights });
    const logits = feed(engine, ids);
    engine.close();
    return logits;
  });
  expect(sameBits(mapped!, copied!)).toBe(true);
});

test("every set of kernels meets the tolerances, and their integers are the same everywhere", () => {
  const want = readFloats(MODELS[0]!.folder, MODELS[0]!.cases.all_positions.logits);
  let ran = 0;
  for (const isa of ISAS) {
    const fast = logitsOf(isa, "fast");
    if (fast.logits === undefined) {
      expect(fast.stderr).toContain(`SURGE_ISA is "${isa}", which is unknown or not possible on this processor`);
      continue;
    }
    ran++;
    expect(difference(fast.logits, want).max).toBeLessThanOrEqual(0.5);
    expect(difference(logitsOf(isa, "exact").logits!, want).max).toBeLessThanOrEqual(2e-3);
  }
  expect(ran).toBeGreaterThanOrEqual(2);
});
