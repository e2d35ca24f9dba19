/**
 * The plan: where everything runs and lives. Readable and editable by a person; validated here before anything is opened.
 * This file knows the shape only; memory.ts knows whether it fits.
 */
import { z } from "zod";

/** What csrc/os/affinity.h holds. */
export const CPU_MAX = 8191;

export const Plan = z.object({
  schema: z.literal("surge.plan/1"),
  /** "cpu", or "cpu" and NPUs such as "npu:0". */
  devices: z.array(z.string().regex(/^(cpu|npu:\d+)$/)).min(1).max(17),
  /** exact: float32 from decoded weights. fast: activations of 8 bits where the weight's format has a kernel for them. */
  precision: z.enum(["exact", "fast"]),
  kv: z.enum(["f32", "f16"]),
  /** mapped: the files' own pages. copied: read into huge pages of our own, which costs their size in memory and some seconds at start. */
  weights: z.enum(["mapped", "copied"]).default("mapped"),
  threads: z.number().int().min(1).max(512),
  /** The processor of each thread; null: wherever the system puts them, which on a shared machine is where there is room. */
  cpus: z.array(z.number().int().min(0).max(CPU_MAX)).max(512).nullable().default(null),
  /** Weights and everything else the engine takes stay in memory, all of it or it is refused. */
  mlock: z.boolean().default(false),
  /** Tokens one sequence may hold. */
  context: z.number().int().min(1).max(1 << 24),
  /** Sequences open at once. */
  parallel: z.number().int().min(1).max(256),
  /** Guesses how the text goes on, to check several tokens in one step: the model's prediction layer (mtp), or earlier text (lookup). */
  draft: z.enum(["none", "mtp", "lookup"]).default("none"),
  /** Tokens of one guess. */
  draftTokens: z.number().int().min(1).max(16).default(2),
  /** Rows one step may hold. */
  stepRows: z.number().int().min(1).max(4096),
}).strict().refine(({ cpus, threads }) => cpus === null || new Set(cpus).size === threads && cpus.length === threads, {
  path: ["cpus"],
  message: "each thread needs one CPU, and no two the same",
});
export type Plan = z.infer<typeof Plan>;
