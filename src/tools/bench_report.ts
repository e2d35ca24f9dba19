/**
 * What `surge bench MODEL --json` prints, as a schema: types, tests and readers of the report come from here. Strict in both directions:
 * a field that is missing and one that nobody declared are faults. Numbers per token, except where the name says otherwise.
 */
import { z } from "zod";
import { Plan } from "../plan/schema.ts";

const amount = z.number().nonnegative();
const count = z.number().int().nonnegative();
const words = z.string().min(1).max(200);

export const PEERS = ["llama.cpp", "ik_llama.cpp"] as const;

/** Of the speeds of several runs. */
export const Speed = z.strictObject({ p50: amount, p10: amount, p90: amount });
export type Speed = z.infer<typeof Speed>;

/** One class of work (SURGE_OPS of csrc/include/surge.h), from the engine's counters. A multiply-add is two operations. */
export const OpReport = z.strictObject({
  name: words,
  ms: amount,
  /** Of the time between the first and the last step's end. */
  time_share: amount,
  bytes: amount,
  flops: amount,
  gbps: amount,
  gops: amount,
});
export type OpReport = z.infer<typeof OpReport>;

const measured = {
  /** Tokens in each sequence before the run. */
  depth: count,
  batch: count,
  /** Of one run, all sequences together. */
  tokens: count,
  tokens_per_second: Speed,
  bytes_per_token: amount,
  flops_per_token: amount,
  /** 1 is the least time that the machine's rates of that moment allow. */
  share_of_roof: amount,
  bandwidth_gbps: amount,
  int8_gops: amount,
  ops: z.array(OpReport),
};

export const BenchResult = z.discriminatedUnion("phase", [
  z.strictObject({
    phase: z.literal("decode"),
    ...measured,
    /** Between two tokens of one sequence. */
    inter_token_ms: z.strictObject({ p50: amount, p90: amount, p99: amount }),
  }),
  z.strictObject({ phase: z.literal("prefill"), ...measured }),
]);
export type BenchResult = z.infer<typeof BenchResult>;

/** The machine alone: `surge bench bandwidth` and `compute`. Rates are medians. */
export const MachineReport = z.strictObject({
  machine: z.strictObject({
    processor: words,
    architecture: words,
    cores: count,
    threads: count,
  }),
  isa: words,
  bandwidth_gbps: amount,
  int8_gops: amount,
});
export type MachineReport = z.infer<typeof MachineReport>;

/** Of the weights or of the engine's buffers: bytes that the system gave. */
const GotPages = z.strictObject({
  mapped_bytes: count,
  resident_bytes: count,
  anon_huge_bytes: count,
  file_huge_bytes: count,
  locked_bytes: count,
});

/** Bytes and processors got, not asked for. */
export const PagesReport = z.strictObject({
  weights: GotPages,
  arena: GotPages,
  cpus: z.array(count),
  pinned_threads: count,
});
export type PagesReport = z.infer<typeof PagesReport>;

export const BenchReport = MachineReport.extend({
  model: z.string(),
  plan: Plan,
  pages: PagesReport,
  results: z.array(BenchResult),
  /** Other engines on the same file; `ratio` is our median speed over theirs. */
  versus: z.array(z.strictObject({
    peer: z.enum(PEERS),
    phase: z.enum(["decode", "prefill"]),
    tokens: count,
    tokens_per_second: Speed,
    ratio: amount,
  })).optional(),
});
export type BenchReport = z.infer<typeof BenchReport>;
