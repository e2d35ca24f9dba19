/** `surge bench` of a small model: its JSON is what the schema says, its text is for people. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import type { z } from "zod";
import { BenchReport, MachineReport } from "../../src/tools/bench_report.ts";

const ROOT = join(import.meta.dir, "../..");
const QUICK = ["--tokens", "3", "--repeats", "2", "--prefill", "70", "--threads", "1"];

function bench(words: string[]): string {
  const ran = Bun.spawnSync([process.execPath, "src/main.ts", "bench", ...words], { cwd: ROOT, stdin: "ignore" });
  expect([ran.stderr.toString(), ran.exitCode]).toEqual(["", 0]);
  return ran.stdout.toString();
}

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Every copy of a report in which one field, at any depth, is not there. The optional field and the plan's defaults are kept. */
function* withoutOneField(value: Json, at: string[] = []): Generator<[string, Json]> {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    const path = [...at, key];
    if (at[0] === "plan") continue;
    const copy = (changed?: Json): Json => {
      if (Array.isArray(value)) return value.map((each, i) => String(i) === key ? changed! : each);
      const rest = Object.fromEntries(Object.entries(value).filter(([other]) => other !== key));
      return changed === undefined ? rest : { ...rest, [key]: changed };
    };
    if (!Array.isArray(value)) yield [path.join("."), copy()];
    for (const [name, changed] of withoutOneField(inner, path)) yield [name, copy(changed)];
  }
}

function accepted(schema: z.ZodType, value: unknown): boolean {
  return schema.safeParse(value).success;
}

test("a model's report is the schema's, and every field of it is needed", () => {
  const report = JSON.parse(bench(["demo", "--json", "--batch", "1,2", ...QUICK])) as Json;
  const parsed = BenchReport.parse(report);
  expect(parsed.results.map(({ phase, batch, tokens }) => [phase, batch, tokens])).toEqual([
    ["decode", 1, 3],
    ["decode", 2, 6],
    ["prefill", 1, 70],
  ]);
  for (const result of parsed.results) {
    const booked = result.ops.reduce((sum, op) => sum + op.time_share, 0);
    expect(booked).toBeGreaterThan(0);
    expect(booked).toBeLessThanOrEqual(1);
    const sum = (field: "bytes" | "flops") => result.ops.reduce((all, op) => all + op[field], 0);
    expect(sum("flops") / result.flops_per_token).toBeCloseTo(1, 1);
    expect(sum("bytes") / result.bytes_per_token).toBeCloseTo(1, 1);
  }
  const mutants = [...withoutOneField(report)];
  expect(mutants.length).toBeGreaterThan(100);
  for (const [name, mutant] of mutants) expect([name, accepted(BenchReport, mutant)]).toEqual([name, false]);
  expect(accepted(BenchReport, { ...parsed, results: parsed.results.map((each) => ({ ...each, more: 1 })) })).toBe(
    false,
  );
});

test("the machine's report is the schema's", () => {
  const report = MachineReport.parse(JSON.parse(bench(["bandwidth", "--json", "--threads", "1"])));
  expect(report.bandwidth_gbps).toBeGreaterThan(0);
  expect(report.int8_gops).toBeGreaterThan(0);
});

test("as text: a line per result, then a table per result, no line wider than a terminal", () => {
  const lines = bench(["demo", ...QUICK]).split("\n");
  expect(lines.filter((line) => /^(decode|prefill) +\d/.test(line))).toHaveLength(2);
  expect(lines.filter((line) => /where the time goes/.test(line))).toHaveLength(2);
  expect(lines.filter((line) => /^expert_up +[\d.]+ +\d+ %( +[\d.]+){4}$/.test(line))).toHaveLength(2);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
});
