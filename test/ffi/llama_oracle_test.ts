/**
 * A second opinion: llama.cpp on the same GGUF files (npm @node-llama-cpp/linux-x64, pinned). The best token agrees wherever it leads by
 * more than llama.cpp's own noise: float32 on F32 files, BF16 or 8-bit activations elsewhere (test/golden/models/README.md).
 * Its haswell variant is used: its AMX path is wrong on files this small.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { goldenModels } from "../support/golden.ts";
import { feed, openNative } from "../support/native.ts";

const LIBRARIES = join(import.meta.dir, "../../node_modules/@node-llama-cpp/linux-x64/bins/linux-x64");
const CPU = "haswell";
/** Largest difference llama.cpp showed against the reference, with room: F32 files 5e-5, BF16 0.66, quantised 0.30. */
const NOISE = { F32: 1e-3, BF16: 1.4, quantised: 0.6 };

function noiseOf(name: string): number {
  if (name.startsWith("q35-k256")) return NOISE.quantised;
  return /^q35-(r1|r2) |^q3moe /.test(name) ? NOISE.F32 : NOISE.BF16;
}

/** Index of the best logit and by how much it leads. */
function leader(row: Float32Array): { best: number; margin: number } {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i]! > row[best]!) best = i;
  const second = Math.max(...row.filter((_, i) => i !== best));
  return { best, margin: row[best]! - second };
}

const usable = process.arch === "x64" && existsSync(LIBRARIES) &&
  /\bavx2\b/.test(readFileSync("/proc/cpuinfo", "utf8"));

describe.skipIf(!usable)("llama.cpp on the same files", () => {
  const folder = mkdtempSync(join(tmpdir(), "oracle-"));
  const program = join(folder, "oracle");

  beforeAll(() => {
    const source = join(import.meta.dir, "../support/llama_oracle.c");
    const built = Bun.spawnSync(["cc", "-O1", "-Wall", "-Werror", "-o", program, source, "-ldl"]);
    expect(built.stderr.toString()).toBe("");
  });

  test.each(goldenModels().filter((model) => model.path.endsWith(".gguf")))("$name", (model) => {
    const out = join(folder, "logits.f32");
    const ids = model.cases.all_positions.ids;
    const run = Bun.spawnSync([program, LIBRARIES, CPU, model.path, out, ids.join(",")]);
    expect([run.exitCode, run.stderr.toString()]).toEqual([0, ""]);
    const bytes = readFileSync(out);
    const theirs = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    const engine = openNative(model.path);
    const ours = feed(engine, ids);
    engine.close();
    let compared = 0;
    for (let i = 0; i < ids.length; i++) {
      const row = (all: Float32Array) => all.subarray(i * engine.vocab, (i + 1) * engine.vocab);
      const { best, margin } = leader(row(ours));
      if (margin <= noiseOf(model.name)) continue;
      compared++;
      expect([i, leader(row(theirs)).best]).toEqual([i, best]);
    }
    expect(compared).toBeGreaterThan(0);
    rmSync(out);
  });

  test("the folder goes", () => rmSync(folder, { recursive: true }));
});
