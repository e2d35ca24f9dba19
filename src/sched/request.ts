/** What a request to generate is, and what comes of it: plain data that also crosses from the engine child to its parent. */
import type { ErrorKind } from "../base/errors.ts";

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

export interface GenerateRequest {
  /** The whole conversation as ids; a prefix that the conversation's sequence already holds is not computed again. */
  ids: number[];
  /** Names the conversation whose sequence is kept between calls. */
  conversation: string;
  maxTokens: number;
  /** End the answer; they are not part of it and are not sent. */
  stopTokens: number[];
  sampler: SamplerOptions;
  /** Reasoning budget: after `tokens` of the answer without `endId`, `closeIds` are fed as if sampled. */
  budget?: { tokens: number; endId: number; closeIds: number[] };
}

export interface GenerateStats {
  promptTokens: number;
  /** Of them, taken from the kept sequence. */
  cachedTokens: number;
  answerTokens: number;
  /** Guesses that were checked, and of them those that were right: tokens that cost no step of their own. */
  draftedTokens: number;
  acceptedTokens: number;
  prefillMs: number;
  decodeMs: number;
}

export type FinishReason = "stop" | "length" | "cancelled";

/** What one step brought to one request. `finished` and `failed` are each request's last. */
export type StepEvent =
  | { type: "prefill"; id: number; done: number; total: number }
  | { type: "tokens"; id: number; tokens: number[] }
  | { type: "finished"; id: number; reason: FinishReason; stats: GenerateStats }
  | { type: "failed"; id: number; kind: ErrorKind; message: string };
