/** The report's tables stay readable on a narrow terminal, whatever the numbers are. */
import { expect, test } from "bun:test";
import { BenchResult } from "../../src/tools/bench_report.ts";
import { brief, opTable, resultLine, resultsHead } from "../../src/tools/bench_table.ts";

const OP = { name: "expert_up", ms: 6, time_share: 0.6, bytes: 4e6, flops: 8e6, gbps: 0.667, gops: 1.33 };
const DECODE = BenchResult.parse({
  phase: "decode",
  depth: 0,
  batch: 1,
  tokens: 32,
  tokens_per_second: { p50: 100, p10: 90, p90: 110 },
  inter_token_ms: { p50: 10, p90: 11.5, p99: 12 },
  bytes_per_token: 5e6,
  flops_per_token: 9e6,
  share_of_roof: 0.5,
  bandwidth_gbps: 30,
  int8_gops: 1000,
  ops: [OP, { ...OP, name: "gdn", ms: 0, time_share: 0, bytes: 0, flops: 0, gbps: 0, gops: 0 }],
});

test("a result is one line under its heads", () => {
  expect(resultsHead() + resultLine(DECODE)).toBe(
    "                                 tokens per second     ms between tokens of the\n" +
      "phase     depth batch tokens     p50    p10    p90     p50    p90    p99   roof\n" +
      "decode        0     1     32     100   90.0    110    10.0   11.5   12.0   50 %\n",
  );
});

test("classes of work without time are left out; the rest and the whole follow from the shares", () => {
  expect(opTable(DECODE)).toBe(
    "decode, batch 1: where the time goes, per token\n" +
      "class of work          ms    share     MB read     GB/s       MFLOP     GOPS\n" +
      "expert_up            6.00     60 %        4.00    0.667        8.00     1.33\n" +
      "rest                 4.00     40 %\n" +
      "all                  10.0                 5.00    0.500        9.00    0.900\n",
  );
});

test("no line is wider than 80 columns and columns stay apart, with the largest numbers too", () => {
  const most = {
    ...DECODE,
    depth: 1 << 20,
    batch: 256,
    tokens: 262144,
    tokens_per_second: { p50: 123456, p10: 123456, p90: 123456 },
    inter_token_ms: { p50: 99999, p90: 99999, p99: 99999 },
    bytes_per_token: 9.9e10,
    flops_per_token: 9.9e11,
    ops: [{ ...OP, name: "a".repeat(40), ms: 99999, bytes: 9.9e10, flops: 9.9e11, gbps: 99999, gops: 99999 }],
  } as BenchResult;
  const { inter_token_ms: _, ...measured } = DECODE as Extract<BenchResult, { phase: "decode" }>;
  const prefill = BenchResult.parse({ ...measured, phase: "prefill" });
  const text = resultsHead() + resultLine(most) + resultLine(prefill) + opTable(most) + opTable(prefill);
  for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  expect(resultLine(most).trim().split(/ +/)).toHaveLength(12);
});

test("numbers keep three digits that matter", () => {
  expect([0, 0.0456, 1, 9.876, 45.67, 1234.5].map(brief)).toEqual(["0.00", "0.046", "1.00", "9.88", "45.7", "1235"]);
});
