/**
 * The report of `surge bench MODEL`: decode and prefill at several depths and batches, each against the machine's roof of that moment.
 * Above the engine; prints nothing.
 */
import type { BenchRequest, BenchRun, EngineClient } from "../engine/client.ts";
import type { BenchResult, OpReport } from "./bench_report.ts";
import { percentile, percentiles, runMs, shareOfRoof } from "./roofline.ts";

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

function opsOf(runs: readonly BenchRun[], tokens: number): OpReport[] {
  const totalNs = runs.reduce((sum, run) => sum + runMs(run), 0) * 1e6;
  const each = tokens * runs.length;
  return runs[0]!.ops.map(({ name }, i) => {
    const sum = (field: "ns" | "bytes" | "macs") => runs.reduce((all, run) => all + run.ops[i]![field], 0);
    const [ns, bytes, flops] = [sum("ns"), sum("bytes"), 2 * sum("macs")];
    return {
      name,
      ms: ns / 1e6 / each,
      time_share: totalNs > 0 ? ns / totalNs : 0,
      bytes: bytes / each,
      flops: flops / each,
      gbps: ns > 0 ? bytes / ns : 0,
      gops: ns > 0 ? flops / ns : 0,
    };
  });
}

function resultOf({ phase, depth, batch, ...shape }: Shape, runs: BenchRun[]): BenchResult {
  const tokens = shape.tokens * batch;
  const median = (of: (run: BenchRun) => number) => percentile(runs.map(of), 0.5);
  const measured = {
    depth,
    batch,
    tokens,
    tokens_per_second: percentiles(runs.map((run) => tokens / (runMs(run) / 1000))),
    bytes_per_token: median((run) => run.bytes / tokens),
    flops_per_token: median((run) => 2 * run.macs / tokens),
    share_of_roof: shareOfRoof(runs),
    bandwidth_gbps: median((run) => run.machine.bytesPerSecond / 1e9),
    int8_gops: median((run) => run.machine.int8PerSecond / 1e9),
    ops: opsOf(runs, tokens),
  };
  if (phase === "prefill") return { phase, ...measured };
  const steps = runs.flatMap((run) => run.stepMs);
  const between = { p50: percentile(steps, 0.5), p90: percentile(steps, 0.9), p99: percentile(steps, 0.99) };
  return { phase, ...measured, inter_token_ms: between };
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
