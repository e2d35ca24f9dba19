/**
 * What the engine child and its parent say to each other: plain data, nothing else. No pointers, no functions.
 *
 * One message per step, not per token. The parent numbers its requests; the child answers with the same id.
 */
import type { ErrorKind } from "../base/errors.ts";
import type { Manifest } from "../model/manifest.ts";
import type { MemoryUse } from "../plan/memory.ts";
import type { Plan } from "../plan/schema.ts";
import type { GenerateRequest, StepEvent } from "../sched/request.ts";

export type { MemoryUse } from "../plan/memory.ts";
export type { FinishReason, GenerateRequest, GenerateStats, SamplerOptions, StepEvent } from "../sched/request.ts";

export interface LogitsRequest {
  ids: number[];
  /** Every position, or the last one. */
  all: boolean;
  /** File that the child writes: float32 little endian, [rows, vocab]. */
  path: string;
}

/** What an engine has done since it was made, by class of work. */
export interface EngineCounters {
  steps: number;
  rows: number;
  ops: Array<{ name: string; ns: number; bytes: number; macs: number }>;
}

/** Bytes of mapped pages, as the kernel counts them. */
export interface PageUse {
  mappedBytes: number;
  residentBytes: number;
  /** In huge pages: anonymous ones, and the page cache's. */
  anonHugeBytes: number;
  fileHugeBytes: number;
  lockedBytes: number;
}

/** What an open engine really has, whatever its plan asked for. */
export interface Placement {
  weights: PageUse;
  /** All its own memory but copied weights. */
  arena: PageUse;
  /** Where its threads may run, and how many of them on one CPU only. */
  cpus: number[];
  pinnedThreads: number;
}

/** One measurement of an open model: `repeats` runs of `tokens` rows after `depth` tokens in each of `batch` sequences. */
export interface BenchRequest {
  phase: "prefill" | "decode";
  depth: number;
  batch: number;
  tokens: number;
  repeats: number;
  /** For the bandwidth that is read before each run. */
  threads: number;
  probeBytes: number;
}

/** One run: wall time of each step, and what the steps read and multiplied. */
export interface BenchRun {
  stepMs: number[];
  bytes: number;
  macs: number;
  ops: EngineCounters["ops"];
  /** Measured just before. */
  machine: MachineRates;
}

export interface MachineRates {
  bytesPerSecond: number;
  int8PerSecond: number;
}

export type ParentMessage =
  | { type: "open"; id: number; manifest: Manifest; plan: Plan; memoryLimitBytes: number }
  | { type: "generate"; id: number; request: GenerateRequest }
  | { type: "logits"; id: number; request: LogitsRequest }
  | { type: "bench"; id: number; request: BenchRequest }
  /** Kernels in use; with `threads`, also the machine's rates over a buffer of `bytes`. */
  | { type: "machine"; id: number; measure?: { threads: number; bytes: number } }
  | { type: "placement"; id: number }
  | { type: "cancel"; id: number }
  | { type: "forget"; conversation: string };

export type ChildMessage =
  | { type: "opened"; id: number; memory: MemoryUse; warning?: string }
  | { type: "loading"; id: number; doneBytes: number; totalBytes: number }
  | { type: "step"; events: StepEvent[] }
  | { type: "logits_done"; id: number; rows: number; vocab: number }
  | { type: "bench_done"; id: number; runs: BenchRun[] }
  | { type: "machine"; id: number; isa: string; rates?: MachineRates }
  | { type: "placement"; id: number; placement: Placement }
  /** A request that is not a generation failed (those fail by a step event). */
  | { type: "failed"; id: number; kind: ErrorKind; message: string };
