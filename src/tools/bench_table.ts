/** The report of `surge bench MODEL` for a person: 80 columns at most, one line per result, then where the time of each went. Pure. */
import type { BenchReport, BenchResult } from "./bench_report.ts";

/** Three or four digits that matter, so that columns stay narrow from a thousandth to millions. */
export function brief(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  return value >= 1 || value === 0 ? value.toFixed(2) : value.toFixed(3);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}

/** The first cell to the left, the others to the right. */
function row(cells: readonly string[], widths: readonly number[]): string {
  const line = cells.map((cell, i) => i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)).join("");
  return `${line.trimEnd()}\n`;
}

const RESULT_WIDTHS = [7, 8, 6, 7, 8, 7, 7, 8, 7, 7, 7];

export function resultsHead(): string {
  const names = ["phase", "depth", "batch", "tokens", "p50", "p10", "p90", "p50", "p90", "p99", "roof"];
  const groups = row(["", "tokens per second", "ms between tokens", "of the"], [28, 22, 22, 7]);
  return groups + row(names, RESULT_WIDTHS);
}

export function resultLine(result: BenchResult): string {
  const { phase, depth, batch, tokens, tokens_per_second: speed, share_of_roof: share } = result;
  const between = phase === "decode" ? result.inter_token_ms : undefined;
  const gaps = between === undefined ? ["", "", ""] : [between.p50, between.p90, between.p99].map(brief);
  const speeds = [speed.p50, speed.p10, speed.p90].map(brief);
  return row([phase, ...[depth, batch, tokens].map(String), ...speeds, ...gaps, percent(share)], RESULT_WIDTHS);
}

const OP_WIDTHS = [14, 11, 9, 12, 9, 12, 9];

function title({ phase, depth, batch, tokens }: BenchResult): string {
  const after = depth > 0 ? ` after ${depth}` : "";
  return phase === "prefill" ? `prefill of ${tokens}${after}` : `decode${after}, batch ${batch}`;
}

/** Classes without time are left out: the model has no such layers. What no class books (sampling, messages) is "rest". */
export function opTable(result: BenchResult): string {
  const { bytes_per_token: bytes, flops_per_token: flops } = result;
  const used = result.ops.filter((op) => op.ms > 0);
  const share = used.reduce((sum, op) => sum + op.time_share, 0);
  const bookedMs = used.reduce((sum, op) => sum + op.ms, 0);
  const allMs = share > 0 ? bookedMs / share : 0;
  const rates = allMs > 0 ? [bytes / allMs / 1e6, flops / allMs / 1e6] as const : [0, 0] as const;
  const rest = Math.max(0, 1 - share);
  return [
    `${title(result)}: where the time goes, per token\n`,
    row(["class of work", "ms", "share", "MB read", "GB/s", "MFLOP", "GOPS"], OP_WIDTHS),
    ...used.map((op) =>
      row([
        op.name.slice(0, OP_WIDTHS[0]! - 1),
        brief(op.ms),
        percent(op.time_share),
        ...op.bytes > 0 ? [brief(op.bytes / 1e6), brief(op.gbps)] : ["", ""],
        ...op.flops > 0 ? [brief(op.flops / 1e6), brief(op.gops)] : ["", ""],
      ], OP_WIDTHS)
    ),
    row(["rest", brief(rest * allMs), percent(rest)], OP_WIDTHS),
    row(["all", brief(allMs), "", brief(bytes / 1e6), brief(rates[0]), brief(flops / 1e6), brief(rates[1])], OP_WIDTHS),
  ].join("");
}

export function versusLines(versus: BenchReport["versus"]): string {
  return (versus ?? []).map(({ peer, phase, tokens, tokens_per_second: speed, ratio }) =>
    `${peer}, ${phase} of ${tokens}: ${brief(speed.p50)} tok/s; surge makes ${ratio.toFixed(2)} of that\n`
  ).join("");
}
