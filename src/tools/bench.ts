/**
 * The report of `surge bench MODEL`: decode and prefill at several depths and batches, each against the machine's roof of that moment.
 * Above the engine; prints nothing.
 */
import type { BenchRequest, BenchRun, EngineClient } from "../engine/client.ts";
import { percentile, type Percentiles, percentiles, runMs, shareOfRoof } from "./roofline.ts";

export interface BenchOptions {
  depths: number[];
  batches: number[];
  prefill: number[];
  /** Decode steps of one run. */
  tokens: number;
  repeats: number;
  threads: number;
  probeBytes: number;
  signal?: AbortSignal;
  onResult?: (result: BenchResult) => void;
}

export interface BenchResult {
  phase: "decode" | "prefill";
  depth: number;
  batch: number;
  /** Tokens of one run, all sequences together. */
  tokens: number;
  tokens_per_second: Percentiles;
  /** Between two tokens of one sequence; decode only. */
  inter_token_ms?: { p50: number; p90: number; p99: number };
  bytes_per_token: number;
  share_of_roof: number;
  bandwidth_gbps: number;
  int8_gops: number;
  /** Share of the time, bytes and multiply-adds per token, by class of work. */
  ops: Array<{ name: string; time_share: number; bytes: number; macs: number; gbps: number }>;
}

type Shape = Pick<BenchRequest, "phase" | "depth" | "batch" | "tokens">;

/** Every depth with the first batch, every other batch at the first depth, then prompts. */
function shapes({ depths, batches, prefill, tokens }: BenchOptions): Shape[] {
  const decode = [
    ...depths.map((depth) => ({ depth, batch: batches[0] ?? 1 })),
    ...batches.slice(1).map((batch) => ({ depth: depths[0] ?? 0, batch })),
  ];
  return [
    ...(depths.length > 0 ? decode.map((shape) => ({ phase: "decode" as const, tokens, ...shape })) : []),
    ...prefill.map((count) => ({ phase: "prefill" as const, depth: 0, batch: 1, tokens: count })),
  ];
}

/** Positions that the longest measurement takes in one sequence. */
export function benchContext(options: BenchOptions): number {
  const decode = Math.max(0, ...options.depths) + options.tokens * options.repeats + 8;
  return Math.max(decode, ...options.prefill);
}

function opsOf(runs: readonly BenchRun[], tokens: number): BenchResult["ops"] {
  const total = runs.reduce((sum, run) => sum + runMs(run), 0) * 1e6;
  return runs[0]!.ops.map(({ name }, i) => {
    const sum = (field: "ns" | "bytes" | "macs") => runs.reduce((all, run) => all + run.ops[i]![field], 0);
    const each = tokens * runs.length;
    const ns = sum("ns");
    const gbps = ns > 0 ? sum("bytes") / ns : 0;
    return { name, time_share: ns / total, bytes: sum("bytes") / each, macs: sum("macs") / each, gbps };
  });
}

function resultOf(shape: Shape, runs: BenchRun[]): BenchResult {
  const tokens = shape.tokens * shape.batch;
  const steps = runs.flatMap((run) => run.stepMs);
  return {
    ...shape,
    tokens,
    tokens_per_second: percentiles(runs.map((run) => tokens / (runMs(run) / 1000))),
    ...(shape.phase === "decode" &&
      { inter_token_ms: { p50: percentile(steps, 0.5), p90: percentile(steps, 0.9), p99: percentile(steps, 0.99) } }),
    bytes_per_token: percentile(runs.map((run) => run.bytes / tokens), 0.5),
    share_of_roof: shareOfRoof(runs),
    bandwidth_gbps: percentile(runs.map((run) => run.machine.bytesPerSecond / 1e9), 0.5),
    int8_gops: percentile(runs.map((run) => run.machine.int8PerSecond / 1e9), 0.5),
    ops: opsOf(runs, tokens),
  };
}

/** Runs all measurements, shapes in turn, on an engine that is open and at rest. */
export async function benchModel(client: EngineClient, options: BenchOptions): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  const { repeats, threads, probeBytes } = options;
  for (const shape of shapes(options)) {
    const runs = await client.bench({ ...shape, repeats, threads, probeBytes }, {
      ...(options.signal && { signal: options.signal }),
    });
    const result = resultOf(shape, runs);
    options.onResult?.(result);
    results.push(result);
  }
  return results;
}
