/** Runs the fuzz target: FUZZ_SECONDS (default 3), FUZZ_SEED to make a run again (default: by the clock, printed). */
import { expect, test } from "bun:test";
import { fuzzReaders } from "./readers_fuzz.ts";

const seconds = Number(process.env["FUZZ_SECONDS"] ?? 3);
const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 2 ** 31);

test(
  `readers refuse damaged files with a SurgeError and nothing else (seed ${seed})`,
  () => {
    console.log(`fuzzing the readers for ${seconds} s, FUZZ_SEED=${seed}`);
    const report = fuzzReaders(seed, seconds);
    console.log(`${report.runs} files: ${report.read} read, ${report.refused} refused`);
    /* A target that refuses everything at the door, or nothing, would prove nothing. */
    expect(report.refused).toBeGreaterThan(report.runs / 10);
    expect(report.read).toBeGreaterThan(0);
  },
  seconds * 1000 + 30_000,
);
