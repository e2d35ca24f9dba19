/** Drafting in the scheduler: whatever is guessed, answers, ends, draws and what is kept are those without guesses. */
import { describe, expect, test } from "bun:test";
import { PLAIN_STEPS, TRIAL_STEPS } from "../../src/sched/draft_gain.ts";
import type { GenerateRequest, StepEvent } from "../../src/sched/request.ts";
import { Scheduler } from "../../src/sched/scheduler.ts";
import { FakeEngine, GREEDY } from "../support/fake_engine.ts";

type Draft = "none" | "mtp" | "lookup";
type Guess = FakeEngine["guess"];

interface RigOptions {
  draft: Draft;
  vocab?: number;
  guess?: Guess | undefined;
  parallel?: number;
  context?: number;
  draftTokens?: number;
}

/** A step takes as long as a plain one however many rows are checked, and guessing nothing: drafting stays on. */
function rig({ draft, vocab = 1009, guess, parallel = 1, context = 4096, draftTokens = 3 }: RigOptions) {
  const engine = new FakeEngine({ sequences: parallel, stepRows: 512, vocab });
  const time = { ms: 0 };
  engine.onStep = () => time.ms += 10;
  if (guess !== undefined) engine.guess = guess;
  const limits = { context, parallel, stepRows: 512, vocab, draft, draftTokens };
  return { engine, time, scheduler: new Scheduler(engine, limits, () => time.ms) };
}

function request(ids: number[], more: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ids, conversation: "c", maxTokens: 60, stopTokens: [], sampler: GREEDY, ...more };
}

function prompt(length: number, vocab = 1009): number[] {
  return Array.from({ length }, (_, i) => (i * 31 + 17) % vocab);
}

function run(scheduler: Scheduler): StepEvent[] {
  const events: StepEvent[] = [];
  for (let steps = 0; scheduler.busy && steps < 10_000; steps++) events.push(...scheduler.step());
  return events;
}

const tokensOf = (events: StepEvent[], id: number) =>
  events.flatMap((event) => event.type === "tokens" && event.id === id ? event.tokens : []);

function endOf(events: StepEvent[], id: number) {
  const end = events.find((event) => event.id === id && event.type === "finished");
  if (end?.type !== "finished") throw new Error(`request ${id} did not finish`);
  return end;
}

/** Right as far as a number says that is mixed from how much is held: no pattern into which steps could fall. */
const partly: Guess = (held, count) => {
  const all = [...held];
  for (let i = 0; i < count; i++) all.push(all.reduce((sum, one) => sum + one, 1) % 1009);
  const right = (Math.imul(held.length, 0x9e3779b1) >>> 16) % (count + 1);
  return all.slice(held.length).map((token, i) => i < right ? token : (token + 1) % 1009);
};
const wrong: Guess = (held, count) => Array.from({ length: count }, (_, i) => (held.length * 7 + i) % 3);

const CASES: Array<[string, RigOptions]> = [
  ["right guesses", { draft: "mtp" }],
  ["wrong guesses", { draft: "mtp", guess: wrong }],
  ["partly right guesses", { draft: "mtp", guess: partly }],
  ["one token of guess", { draft: "mtp", draftTokens: 1, guess: partly }],
  ["look-up", { draft: "lookup", vocab: 7 }],
];

describe.each(CASES)("%s", (_name, options) => {
  const vocab = options.vocab ?? 1009;
  const both = (more: Partial<GenerateRequest>, context = 4096) =>
    (["none", options.draft] as const).map((draft) => {
      const { engine, scheduler } = rig({ ...options, draft, context });
      scheduler.add(1, request(prompt(40, vocab), more));
      const events = run(scheduler);
      const held = [...engine.open.values()];
      return { tokens: tokensOf(events, 1), reason: endOf(events, 1).reason, held, draws: engine.draws };
    });

  test("the answer, its end, its draws and what the sequence holds are the same, wherever the answer ends", () => {
    for (let maxTokens = 1; maxTokens <= 60; maxTokens++) {
      const [plain, drafted] = both({ maxTokens });
      expect(drafted!).toEqual(plain!);
    }
    for (const context of [41, 42, 60, 61, 62, 63, 64, 65]) {
      const [plain, drafted] = both({ maxTokens: 1000 }, context);
      expect(drafted!).toEqual(plain!);
    }
  });

  test("a stop token ends it, also one that was guessed", () => {
    const { tokens } = both({})[0]!;
    for (const at of [10, 20, 25, 26, 27, 28, 29, 59]) {
      const [plain, drafted] = both({ stopTokens: [tokens[at]!] });
      expect(drafted!).toEqual(plain!);
    }
  });

  test("a reasoning budget closes at the same token", () => {
    for (const tokens of [1, 15, 20, 21, 22, 23]) {
      const [plain, drafted] = both({ budget: { tokens, endId: 5000, closeIds: [3, 4, 5] } });
      expect(drafted!).toEqual(plain!);
    }
  });
});

test("right guesses save steps, and are counted", () => {
  const [plain, drafted] = (["none", "mtp"] as const).map((draft) => {
    const { engine, scheduler } = rig({ draft });
    scheduler.add(1, request(prompt(40), { maxTokens: 100 }));
    const { stats } = endOf(run(scheduler), 1);
    return { steps: engine.steps.length, stats };
  });
  expect(plain!.steps).toBe(100);
  expect(plain!.stats).toMatchObject({ draftedTokens: 0, acceptedTokens: 0 });
  expect(drafted!.steps).toBeLessThan(45);
  const { draftedTokens, acceptedTokens } = drafted!.stats;
  expect(acceptedTokens).toBe(100 - drafted!.steps);
  expect(draftedTokens).toBe(acceptedTokens);
});

test("several requests, some guessed at, beside a prefill: each is answered as if it were alone", () => {
  const { engine, scheduler } = rig({ draft: "mtp", guess: partly, parallel: 3 });
  const alone = (id: number) => {
    const single = rig({ draft: "none" });
    single.scheduler.add(id, request(prompt(30 + id), { maxTokens: 50 + id }));
    return tokensOf(run(single.scheduler), id);
  };
  scheduler.add(1, request(prompt(31), { conversation: "a", maxTokens: 51 }));
  scheduler.add(2, request(prompt(32), { conversation: "b", maxTokens: 52 }));
  const events: StepEvent[] = [];
  for (let i = 0; i < 12; i++) events.push(...scheduler.step());
  scheduler.add(3, request(prompt(33), { conversation: "c", maxTokens: 53 }));
  events.push(...run(scheduler));
  for (const id of [1, 2, 3]) expect(tokensOf(events, id)).toEqual(alone(id));
  expect(engine.steps.some((rows) => new Set(rows.filter((row) => row.draft).map((row) => row.sequence)).size > 1))
    .toBe(true);
});

test("a conversation that was guessed at is kept, and goes on without being computed again", () => {
  const { scheduler } = rig({ draft: "mtp", guess: partly });
  scheduler.add(1, request(prompt(40), { maxTokens: 50 }));
  const answer = tokensOf(run(scheduler), 1);
  scheduler.add(2, request([...prompt(40), ...answer, 1, 2]));
  expect(endOf(run(scheduler), 2).stats.cachedTokens).toBe(89);
});

test("guesses that cost more than they gain end after one trial", () => {
  const { engine, scheduler, time } = rig({ draft: "mtp", guess: wrong });
  engine.onStep = (rows) => time.ms += 10 + rows.length;
  scheduler.add(1, request(prompt(40), { maxTokens: 200 }));
  run(scheduler);
  expect(engine.drafts).toHaveLength(TRIAL_STEPS);
  expect(engine.steps.slice(-100).flat().some((row) => row.draft)).toBe(false);
});

test("time spent on guessing counts", () => {
  const { engine, scheduler, time } = rig({ draft: "mtp" });
  engine.guess = (held, count) => {
    time.ms += 31;
    return rig({ draft: "mtp" }).engine.guess(held, count);
  };
  scheduler.add(1, request(prompt(40), { maxTokens: 200 }));
  run(scheduler);
  expect(engine.drafts).toHaveLength(TRIAL_STEPS);
});

test.each(["rewindSequence", "sample"] as const)("time spent in %s counts", (slow) => {
  const { engine, scheduler, time } = rig({ draft: "mtp" });
  const right = engine.guess;
  engine.guess = (held, count) => [...right(held, count - 1), 1008]; /* two of three */
  const usual = engine[slow].bind(engine) as (...words: never[]) => never;
  engine[slow] = (...words: never[]) => {
    if (engine.steps.at(-1)!.some((row) => row.draft)) time.ms += 40;
    return usual(...words);
  };
  scheduler.add(1, request(prompt(40), { maxTokens: 200 }));
  run(scheduler);
  expect(engine.drafts).toHaveLength(TRIAL_STEPS);
});

test("a gain just above and just below 1.05 decides, by the clock", () => {
  for (const [draftedMs, trials] of [[37.5, 2], [38.5, 1]] as const) {
    const { engine, scheduler, time } = rig({ draft: "mtp" }); /* every guess of three is right: four tokens a step */
    engine.onStep = (rows) => time.ms += rows.some((row) => row.draft) ? draftedMs : 10;
    scheduler.add(1, request(prompt(40), { maxTokens: PLAIN_STEPS + 4 * TRIAL_STEPS * 2 }));
    run(scheduler);
    expect(engine.drafts.length > TRIAL_STEPS).toBe(trials > 1);
  }
});

test("a guess that fails ends the requests with its sentence and leaves no sequence behind", () => {
  const { engine, scheduler } = rig({ draft: "mtp", parallel: 2 });
  engine.guess = () => {
    throw new Error("the layer is broken");
  };
  scheduler.add(1, request(prompt(40)));
  const events = run(scheduler);
  expect(tokensOf(events, 1)).toHaveLength(PLAIN_STEPS + 1);
  expect(events.at(-1)).toMatchObject({ type: "failed", id: 1, message: "the layer is broken" });
  expect([engine.open.size, scheduler.busy]).toEqual([0, false]);
});
