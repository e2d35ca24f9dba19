/** What a run could have reached at best: the slower of reading its bytes and of making its products, at the rates measured beside it. */
import type { BenchRun } from "../engine/client.ts";
import type { Speed } from "./bench_report.ts";

/** The value below which `share` (0 to 1) of the values lie; between two of them by proportion. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  const high = Math.ceil(at);
  return sorted[low]! + (sorted[high]! - sorted[low]!) * (at - low);
}

export function percentiles(values: readonly number[]): Speed {
  return { p50: percentile(values, 0.5), p10: percentile(values, 0.1), p90: percentile(values, 0.9) };
}

export function runMs(run: BenchRun): number {
  return run.stepMs.reduce((sum, ms) => sum + ms, 0);
}

/** Seconds that the machine needs at least: all bytes at the measured bandwidth, or all operations at the measured rate. */
export function boundSeconds({ bytes, macs, machine }: BenchRun): number {
  return Math.max(bytes / machine.bytesPerSecond, 2 * macs / machine.int8PerSecond);
}

/** Median over the runs of bound / measured: 1 is the roof. */
export function shareOfRoof(runs: readonly BenchRun[]): number {
  return percentile(runs.map((run) => boundSeconds(run) / (runMs(run) / 1000)), 0.5);
}
