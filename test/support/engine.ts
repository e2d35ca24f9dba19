/** Engine clients for tests: the real child, a golden model, short requests. */
import { join } from "node:path";
import { type EngineClient, type GenerateRequest, startEngine } from "../../src/engine/client.ts";
import type { Plan } from "../../src/plan/schema.ts";
import { GREEDY } from "./fake_engine.ts";

export const GOLDEN_MODEL = join(import.meta.dir, "../golden/models/q35-r2/model.gguf");
export const GOLDEN_FOLDER = join(import.meta.dir, "../golden/models/q35-r2");

export function testEngine(): EngineClient {
  return startEngine({ command: [process.execPath, join(import.meta.dir, "engine_child.ts")] });
}

export function enginePlan(changes: Partial<Plan> = {}): Plan {
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
    threads: 1,
    context: 512,
    parallel: 1,
    stepRows: 128,
    ...changes,
  };
}

export function greedyRequest(ids: number[], changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ids, conversation: "test", maxTokens: 8, stopTokens: [], sampler: GREEDY, ...changes };
}

/** Every token of an answer, and how it ended. */
export async function collect(generation: ReturnType<EngineClient["generate"]>) {
  const tokens: number[] = [];
  for await (const batch of generation) tokens.push(...batch);
  return { tokens, ...await generation.result };
}
