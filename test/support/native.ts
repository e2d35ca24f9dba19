/** The C engine for tests that drive it directly: greedy sampler options, plans, feeding ids in chosen pieces. */
import { join } from "node:path";
import { NativeEngine } from "../../ffi/engine.ts";
import { type Library, loadLibrary } from "../../ffi/load.ts";
import { readModel } from "../../src/model/source.ts";
import type { Plan } from "../../src/plan/schema.ts";
import { GREEDY } from "./fake_engine.ts";

export { GREEDY };

export const LIBRARY_PATH = join(import.meta.dir, "../../build/libsurge.so");

let library: Library | undefined;

export function testLibrary(): Library {
  library ??= loadLibrary(LIBRARY_PATH);
  return library;
}

export function testPlan(changes: Partial<Plan> = {}): Plan {
  return {
    schema: "surge.plan/1",
    devices: ["cpu"],
    precision: "exact",
    kv: "f32",
    weights: "mapped",
    cpus: null,
    mlock: false,
    draft: "none",
    draftTokens: 2,
    threads: 2,
    context: 256,
    parallel: 4,
    stepRows: 512,
    ...changes,
  };
}

export function openNative(path: string, changes: Partial<Plan> = {}): NativeEngine {
  return new NativeEngine(testLibrary(), readModel(path), testPlan(changes));
}

/** Logits [ids.length, vocab] of every position, fed in pieces of the given lengths (the last one repeats). */
export function feed(
  engine: NativeEngine,
  ids: number[],
  options: { pieces?: number[]; sequence?: number } = {},
): Float32Array {
  const { pieces = [ids.length] } = options;
  const sequence = options.sequence ?? engine.openSequence();
  const out = new Float32Array(ids.length * engine.vocab);
  let at = 0;
  for (let piece = 0; at < ids.length; piece++) {
    const count = Math.min(pieces[Math.min(piece, pieces.length - 1)]!, ids.length - at, 64);
    engine.step(ids.slice(at, at + count).map((token, i) => ({ sequence, position: at + i, token, logits: true })));
    for (let i = 0; i < count; i++) {
      engine.logits(i, out.subarray((at + i) * engine.vocab, (at + i + 1) * engine.vocab));
    }
    at += count;
  }
  if (options.sequence === undefined) engine.closeSequence(sequence);
  return out;
}

/** The next `count` greedy tokens after the prompt. */
export function greedy(engine: NativeEngine, ids: number[], count: number): number[] {
  const sequence = engine.openSequence();
  const out: number[] = [];
  engine.step(ids.map((token, i) => ({ sequence, position: i, token, logits: i === ids.length - 1 })));
  while (out.length < count) {
    const token = engine.sample(0, sequence, { ...GREEDY, answerFrom: ids.length, draw: out.length });
    out.push(token);
    if (out.length < count) engine.step([{ sequence, position: ids.length + out.length - 1, token, logits: true }]);
  }
  engine.closeSequence(sequence);
  return out;
}
