/** What the child's loop needs of an engine. The native one is made in host.ts; tests bring their own. */
import type { Manifest } from "../model/manifest.ts";
import type { MemoryUse } from "../plan/memory.ts";
import type { Plan } from "../plan/schema.ts";
import type { EngineCounters, Placement } from "./protocol.ts";
import type { StepEngine } from "../sched/scheduler.ts";

export interface Engine extends StepEngine {
  readonly vocab: number;
  /** Logits of the n-th row of the last step that asked for them; `into` has one float per entry of the vocabulary. */
  logits(logitsRow: number, into: Float32Array): void;
  counters(): EngineCounters;
  placement(): Placement;
  close(): void;
}

/** Measures the machine: per second, all threads together. */
export interface Probe {
  bandwidth(): number;
  int8(): number;
  close(): void;
}

export interface Backend {
  /** Name of the kernels in use. */
  isa(): string;
  probe(options: { threads: number; bytes: number }): Probe;
  /** The manifest with every file as one that can be mapped (a file inside the program's binary cannot). */
  locate(manifest: Manifest): Manifest;
  measure(manifest: Manifest, plan: Plan): MemoryUse;
  open(manifest: Manifest, plan: Plan): Engine;
}
