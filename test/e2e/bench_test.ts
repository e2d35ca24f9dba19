/** `surge bench` of a small model: its JSON is what the schema says, its text is for people. */
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
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

test("--save-profile keeps the figures; info shows them, or why it does not", () => {
  const folder = mkdtempSync(join(tmpdir(), "bench-"));
  const path = join(folder, "surge/profile.json");
  const surge = (words: string[], env: Record<string, string | undefined> = { XDG_STATE_HOME: folder }) => {
    const command = [process.execPath, "src/main.ts", ...words];
    const ran = Bun.spawnSync(command, { cwd: ROOT, stdin: "ignore", env: { ...process.env, ...env } });
    return { code: ran.exitCode, out: ran.stdout.toString(), err: ran.stderr.toString() };
  };
  const kept = () => (JSON.parse(surge(["info", "--json"]).out) as { machine: { profile: unknown } }).machine.profile;
  try {
    expect(kept()).toBeNull();
    const saved = surge(["bench", "demo", "--save-profile", "--json", ...QUICK]);
    expect([saved.code, saved.err]).toEqual([0, expect.stringContaining(`${path}: figures of `)]);
    const { isa, bandwidth_gbps, int8_gops } = BenchReport.parse(JSON.parse(saved.out));
    expect(kept()).toMatchObject({ figures: [{ isa, threads: 1, bandwidth_gbps, int8_gops }] });
    expect(surge(["info"]).out).toContain(`${isa} on 1 thread: ${bandwidth_gbps.toFixed(1)} GB/s`);
    writeFileSync(path, "{");
    expect(surge(["info"])).toMatchObject({ code: 0, out: expect.stringMatching(/^profile +refused: .* is damaged/m) });
    const again = surge(["bench", "compute", "--save-profile", "--threads", "1"]);
    expect([again.code, again.err]).toEqual([0, expect.stringContaining("An earlier profile was replaced")]);
    const nowhere = surge(["bench", "compute", "--save-profile"], { XDG_STATE_HOME: "", HOME: "" });
    expect(nowhere).toMatchObject({ code: 78, out: "", err: expect.stringContaining("set HOME or XDG_STATE_HOME") });
    const full = surge(["bench", "compute", "--save-profile"], { XDG_STATE_HOME: path });
    expect(full).toMatchObject({
      code: 66,
      out: "",
      err: expect.stringMatching(/^surge: The machine's profile cannot/),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.each([
  [["--batch", "0"], "--batch takes at most 16 whole numbers from 1 to 256"],
  [["--prefill", "64,0"], "--prefill takes at most 16 whole numbers from 1 to 4096"],
  [["--depth", ",", "--prefill", ","], "Nothing is left to measure"],
])("what cannot be measured is refused: %p", (words, message) => {
  const command = [process.execPath, "src/main.ts", "bench", "demo", ...words];
  const ran = Bun.spawnSync(command, { cwd: ROOT, stdin: "ignore" });
  expect([ran.exitCode, ran.stdout.toString(), ran.stderr.toString()]).toEqual([
    64,
    "",
    expect.stringContaining(message),
  ]);
});
