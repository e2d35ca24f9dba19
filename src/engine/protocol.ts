/**
 * What the engine child and its parent say to each other: plain data, nothing else. No pointers, no functions.
 *
 * One message per step, not per token. The parent numbers its requests; the child answers with the same id.
 */
import type { ErrorKind } from "../base/errors.ts";
import type { Manifest } from "../model/manifest.ts";
import type { Plan } from "../plan/schema.ts";

export interface SamplerOptions {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  presencePenalty: number;
  frequencyPenalty: number;
  repeatPenalty: number;
  seed: number;
  logitBias: Array<{ token: number; bias: number }>;
}

/** Bytes of anonymous memory by class, as the C library measured them, and file-backed bytes. */
export interface MemoryUse {
  kv: number;
  states: number;
  scratch: number;
  vectors: number;
  tables: number;
  total: number;
  mapped: number;
}

export interface GenerateRequest {
  /** The whole conversation as ids; a prefix that the conversation's sequence already holds is not computed again. */
  ids: number[];
  /** Names the conversation whose sequence is kept between calls. */
  conversation: string;
  maxTokens: number;
  stopTokens: number[];
  sampler: SamplerOptions;
  /** Reasoning budget: after `tokens` of the answer without `closeIds`' last id, `closeIds` are fed as if sampled. */
  budget?: { tokens: number; endId: number; closeIds: number[] };
}

export interface LogitsRequest {
  ids: number[];
  /** Every position, or the last one. */
  all: boolean;
  /** File that the child writes: float32 little endian, [rows, vocab]. */
  path: string;
}

export type ParentMessage =
  | { type: "open"; id: number; manifest: Manifest; plan: Plan; memoryLimitBytes: number }
  | { type: "generate"; id: number; request: GenerateRequest }
  | { type: "logits"; id: number; request: LogitsRequest }
  | { type: "cancel"; id: number }
  | { type: "forget"; conversation: string };

export interface GenerateStats {
  promptTokens: number;
  /** Of them, taken from the kept sequence. */
  cachedTokens: number;
  answerTokens: number;
  prefillMs: number;
  decodeMs: number;
}

export type FinishReason = "stop" | "length" | "cancelled";

export type ChildMessage =
  | { type: "opened"; id: number; memory: MemoryUse }
  | { type: "loading"; id: number; doneBytes: number; totalBytes: number }
  | { type: "prefill"; id: number; done: number; total: number }
  | { type: "tokens"; id: number; tokens: number[] }
  | { type: "finished"; id: number; reason: FinishReason; stats: GenerateStats }
  | { type: "logits_done"; id: number; rows: number; vocab: number }
  | { type: "failed"; id: number; kind: ErrorKind; message: string };
