import { expect, test } from "bun:test";
import { DraftGain, LEAST_GAIN, PLAIN_STEPS, REST_STEPS, TRIAL_STEPS, TRIALS } from "../../src/sched/draft_gain.ts";

interface Machine {
  plainMs: number;
  draftedMs: number;
  /** Of a step with guesses. */
  tokens: number;
}

/** Runs steps as a scheduler would: guesses where they are wanted. Returns which steps had some. */
function run(gain: DraftGain, steps: number, { plainMs, draftedMs, tokens }: Machine, sequences = 1): boolean[] {
  return Array.from({ length: steps }, () => {
    const { drafting } = gain;
    gain.record(
      drafting
        ? { elapsedMs: draftedMs, sequences, drafted: 2 * sequences, tokens: tokens * sequences }
        : { elapsedMs: plainMs, sequences, drafted: 0, tokens: sequences },
    );
    return drafting;
  });
}

const count = (flags: boolean[]) => flags.filter((flag) => flag).length;

test("guesses begin after plain steps were measured, and stay while they gain", () => {
  const gain = new DraftGain();
  const steps = run(gain, 1000, { plainMs: 10, draftedMs: 13, tokens: 1.8 });
  expect(steps.slice(0, PLAIN_STEPS)).not.toContain(true);
  expect(steps[PLAIN_STEPS]).toBe(true);
  /* What is not drafted is the measure, taken anew now and then. */
  expect(count(steps)).toBe(1000 - PLAIN_STEPS * Math.ceil(1000 / (TRIALS * TRIAL_STEPS + PLAIN_STEPS)));
});

test("the bound is a gain of 1.05", () => {
  const tokens = 1.5;
  for (const [factor, stays] of [[LEAST_GAIN + 0.001, true], [LEAST_GAIN - 0.001, false]] as const) {
    const gain = new DraftGain();
    run(gain, PLAIN_STEPS + TRIAL_STEPS, { plainMs: 10, draftedMs: 10 * tokens / factor, tokens });
    expect(gain.drafting).toBe(stays);
  }
});

test("what does not pay is switched off, and tried again after a long rest", () => {
  const gain = new DraftGain();
  const slow = { plainMs: 10, draftedMs: 20, tokens: 1.5 };
  expect(count(run(gain, PLAIN_STEPS + TRIAL_STEPS, slow))).toBe(TRIAL_STEPS);
  expect(count(run(gain, REST_STEPS, slow))).toBe(0);
  expect(count(run(gain, 10 * (REST_STEPS + TRIAL_STEPS), slow))).toBe(10 * TRIAL_STEPS);
  expect(count(run(gain, 500, { plainMs: 10, draftedMs: 12, tokens: 1.9 }))).toBeGreaterThan(200);
});

test("text that stops repeating switches it off within a trial", () => {
  const gain = new DraftGain();
  run(gain, 100, { plainMs: 10, draftedMs: 12, tokens: 2.5 });
  const after = run(gain, 100, { plainMs: 10, draftedMs: 12, tokens: 1 });
  expect(count(after)).toBeLessThanOrEqual(2 * TRIAL_STEPS);
});

test("a step that something else held up decides nothing", () => {
  const gain = new DraftGain();
  run(gain, PLAIN_STEPS, { plainMs: 10, draftedMs: 13, tokens: 1.8 });
  gain.record({ elapsedMs: 60_000, sequences: 1, drafted: 2, tokens: 1 });
  run(gain, TRIAL_STEPS - 1, { plainMs: 10, draftedMs: 13, tokens: 1.8 });
  expect(gain.drafting).toBe(true);
});

test("steps without anything to guess are a measure and no trial", () => {
  const gain = new DraftGain();
  run(gain, PLAIN_STEPS, { plainMs: 30, draftedMs: 13, tokens: 1.8 });
  for (let i = 0; i < 100; i++) gain.record({ elapsedMs: 10, sequences: 1, drafted: 0, tokens: 1 });
  expect(gain.drafting).toBe(true);
  run(gain, TRIAL_STEPS, { plainMs: 10, draftedMs: 18, tokens: 1.8 });
  expect(gain.drafting).toBe(false);
});

test("with another number of requests everything is measured anew", () => {
  const gain = new DraftGain();
  const good = { plainMs: 10, draftedMs: 13, tokens: 1.8 };
  run(gain, 50, good);
  const steps = run(gain, PLAIN_STEPS + TRIAL_STEPS + 1, { ...good, draftedMs: 60 }, 4);
  expect(steps[0]).toBe(true); /* it was begun before the number was known */
  expect(count(steps)).toBe(1 + TRIAL_STEPS);
  expect(gain.drafting).toBe(false);
});
