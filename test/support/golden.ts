/** Reading test/golden/models: prompts, stored answers, and which files they belong to. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const GOLDEN_MODELS = join(import.meta.dir, "../golden/models");

interface ArrayRef {
  file: string;
  shape: number[];
}

export interface GoldenCases {
  last_logits: ArrayRef;
  cases: Array<{ name: string; ids: number[]; logits_row: number; greedy: number[] }>;
  all_positions: { ids: number[]; logits: ArrayRef };
  batches?: string[][];
  /** Row t: after token t + 1, with the hidden state of t. */
  mtp_drafts?: { logits: ArrayRef };
}

export interface GoldenModel {
  /** "q35-r2 hf", "q35-k256 q4_k-q6_k". */
  name: string;
  path: string;
  folder: string;
  cases: GoldenCases;
}

/** Every stored checkpoint with its answers; q3next belongs to a family that has no adapter yet. */
export function goldenModels(): GoldenModel[] {
  const models: GoldenModel[] = [];
  for (const name of readdirSync(GOLDEN_MODELS).sort()) {
    const folder = join(GOLDEN_MODELS, name);
    if (name === "q3next" || name === "maker" || !existsSync(join(folder, "hf")) && !name.startsWith("q35-k256")) {
      continue;
    }
    const read = (file: string) => JSON.parse(readFileSync(join(folder, file), "utf8")) as GoldenCases;
    if (existsSync(join(folder, "hf"))) {
      models.push({ name: `${name} hf`, path: join(folder, "hf"), folder, cases: read("cases.json") });
    }
    for (const gguf of readdirSync(folder).filter((file) => file.endsWith(".gguf"))) {
      const stem = gguf.slice(0, -".gguf".length);
      const cases = read(stem === "model" ? "cases.json" : `${stem}.cases.json`);
      models.push({ name: `${name} ${stem}`, path: join(folder, gguf), folder, cases });
    }
  }
  return models;
}

export function readFloats(folder: string, ref: ArrayRef): Float32Array {
  const bytes = readFileSync(join(folder, ref.file));
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

export interface Difference {
  max: number;
  rms: number;
}

/** Largest and root-mean-square difference of two arrays of equal length. */
export function difference(a: Float32Array, b: Float32Array): Difference {
  if (a.length !== b.length) throw new Error(`lengths ${a.length} and ${b.length}`);
  let max = 0;
  let squares = 0;
  for (let i = 0; i < a.length; i++) {
    const d = Math.abs(a[i]! - b[i]!);
    /* NaN must not pass as small. */
    max = d > max || Number.isNaN(d) ? d : max;
    squares += d * d;
  }
  return { max, rms: Math.sqrt(squares / a.length) };
}
