import { expect, test } from "bun:test";
import { SurgeError } from "../../src/base/errors.ts";
import { Pace, PIECE_TOKENS } from "../../src/sched/pace.ts";
import type { GenerateRequest, StepEvent } from "../../src/sched/request.ts";
import { Scheduler, WAITING_MAX } from "../../src/sched/scheduler.ts";
import { FakeEngine, GREEDY } from "../support/fake_engine.ts";

const VOCAB = 1009;

interface Rig {
  engine: FakeEngine;
  scheduler: Scheduler;
  time: { ms: number };
}

function rig({ parallel = 1, context = 4096, stepRows = 512, draft = "none" as "none" | "mtp" | "lookup" } = {}): Rig {
  const engine = new FakeEngine({ sequences: parallel, stepRows, vocab: VOCAB });
  const time = { ms: 0 };
  const scheduler = new Scheduler(
    engine,
    { context, parallel, stepRows, vocab: VOCAB, draft, draftTokens: 3 },
    () => time.ms,
  );
  return { engine, scheduler, time };
}

function prompt(length: number, seed = 1): number[] {
  return Array.from({ length }, (_, i) => (i * 31 + seed * 17) % VOCAB);
}

function request(ids: number[], more: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ids, conversation: "c", maxTokens: 8, stopTokens: [], sampler: GREEDY, ...more };
}

function run(scheduler: Scheduler): StepEvent[] {
  const events: StepEvent[] = [];
  for (let steps = 0; scheduler.busy && steps < 10_000; steps++) events.push(...scheduler.step());
  return events;
}

function tokensOf(events: StepEvent[], id: number): number[] {
  return events.flatMap((event) => event.type === "tokens" && event.id === id ? event.tokens : []);
}

function endOf(events: StepEvent[], id: number) {
  const ends = events.filter((event) => event.id === id && (event.type === "finished" || event.type === "failed"));
  expect(ends).toHaveLength(1);
  return ends[0]!;
}

/** What the fake engine answers when nothing goes wrong. */
function expected(ids: number[], count: number): number[] {
  const held = [...ids];
  const answer: number[] = [];
  while (answer.length < count) {
    const token = held.reduce((sum, one) => sum + one, 1) % VOCAB;
    answer.push(token);
    held.push(token);
  }
  return answer;
}

test("an answer is what the engine says of the whole prompt, whatever the piece boundaries", () => {
  for (const length of [1, 63, 64, 65, 127, 128, 129, 700]) {
    const { scheduler } = rig();
    scheduler.add(7, request(prompt(length)));
    const events = run(scheduler);
    expect(tokensOf(events, 7)).toEqual(expected(prompt(length), 8));
    expect(endOf(events, 7)).toMatchObject({
      type: "finished",
      reason: "length",
      stats: { promptTokens: length, answerTokens: 8 },
    });
  }
});

test("prefill ends on multiples of 64 from the sequence's start, however fast the machine is", () => {
  for (const rowMs of [0.01, 0.4, 1, 5, 50]) {
    const { engine, scheduler, time } = rig();
    engine.onStep = (rows) => time.ms += rows.length * rowMs;
    scheduler.add(1, request(prompt(1000), { maxTokens: 1 }));
    run(scheduler);
    const ends = engine.steps.map((rows) => rows.at(-1)!.position + 1);
    expect(ends.at(-1)).toBe(1000);
    for (const end of ends.slice(0, -1)) expect(end % PIECE_TOKENS).toBe(0);
  }
});

test("a step of prefill alone takes about 2 s once the speed is known, beside decoding 200 ms, and one piece at least", () => {
  const { engine, scheduler, time } = rig({ stepRows: 4096 });
  engine.onStep = (rows) => time.ms += rows.length * 5;
  scheduler.add(1, request(prompt(4000), { maxTokens: 1 }));
  run(scheduler);
  const rows = engine.steps.map((step) => step.length);
  expect(rows[0]).toBe(256);
  expect(Math.max(...rows)).toBe(384);
  const pace = new Pace({ mixedMs: 200, aloneMs: 2000 });
  expect(pace.pieces(1)).toBe(1);
  pace.record({ prefillRows: 64, decodeRows: 0, elapsedMs: 64 });
  pace.record({ prefillRows: 0, decodeRows: 2, elapsedMs: 72 });
  expect(pace.pieces(2)).toBe(2);
  pace.record({ prefillRows: 64, decodeRows: 0, elapsedMs: 9000 });
  expect([pace.pieces(0), pace.pieces(2)]).toEqual([1, 1]);
});

test("a step runs in slices; cancelling all of its requests gives it up, cancelling one closes that one at its end", () => {
  const { engine, scheduler } = rig({ parallel: 2 });
  engine.slices = 3;
  scheduler.add(1, request(prompt(100, 1), { conversation: "a" }));
  scheduler.step();
  expect([scheduler.midStep, engine.budgets]).toEqual([true, [200]]);
  scheduler.cancel(1);
  expect(endOf(scheduler.step(), 1)).toMatchObject({ reason: "cancelled" });
  expect([scheduler.midStep, scheduler.busy, engine.open.size, engine.steps.length]).toEqual([false, false, 0, 0]);
  scheduler.add(2, request(prompt(30, 2), { conversation: "b" }));
  scheduler.add(3, request(prompt(30, 3), { conversation: "c" }));
  scheduler.step();
  scheduler.cancel(2);
  expect(tokensOf(run(scheduler), 3)).toEqual(expected(prompt(30, 3), 8));
  expect(engine.open.size).toBe(1);
});

test("decoding goes on beside another request's prefill, and prefills take turns", () => {
  const { engine, scheduler, time } = rig({ parallel: 3 });
  engine.onStep = (rows) => time.ms += rows.length * 10;
  scheduler.add(1, request(prompt(10, 1), { conversation: "a", maxTokens: 12 }));
  let events = scheduler.step();
  scheduler.add(2, request(prompt(256, 2), { conversation: "b" }));
  scheduler.add(3, request(prompt(256, 3), { conversation: "c" }));
  events = [...events, ...run(scheduler)];
  for (const step of engine.steps.slice(0, 12)) {
    expect(step.filter((row) => row.sequence === 0 && row.logits)).toHaveLength(1);
  }
  const prefills = events.filter((event) => event.type === "prefill" && event.id > 1).map((event) => event.id);
  expect(prefills.slice(0, 4).sort()).toEqual([2, 2, 3, 3]);
  for (const id of [1, 2, 3]) {
    expect(tokensOf(events, id)).toEqual(expected(prompt(id === 1 ? 10 : 256, id), id === 1 ? 12 : 8));
  }
});

test("a conversation that grows is not computed again; one that changed is", () => {
  const { engine, scheduler } = rig();
  const first = prompt(100);
  scheduler.add(1, request(first));
  const answer = tokensOf(run(scheduler), 1);
  const longer = [...first, ...answer, 5, 6, 7];
  scheduler.add(2, request(longer));
  const again = run(scheduler);
  expect(tokensOf(again, 2)).toEqual(expected(longer, 8));
  expect(endOf(again, 2)).toMatchObject({ stats: { promptTokens: 111, cachedTokens: 107 } });
  scheduler.add(3, request([...longer.slice(0, 50), 9, 9]));
  expect(endOf(run(scheduler), 3)).toMatchObject({ stats: { promptTokens: 52, cachedTokens: 0 } });
  expect(engine.open.size).toBe(1);
});

test("the same prompt again is computed, since nothing would be left to compute", () => {
  const { scheduler } = rig();
  scheduler.add(1, request(prompt(70), { maxTokens: 1 }));
  const first = run(scheduler);
  scheduler.add(2, request(prompt(70), { maxTokens: 1 }));
  const second = run(scheduler);
  expect(tokensOf(second, 2)).toEqual(tokensOf(first, 1));
  expect(endOf(second, 2)).toMatchObject({ stats: { cachedTokens: 0 } });
});

test("the conversation that was used longest ago gives up its sequence", () => {
  const { engine, scheduler } = rig({ parallel: 2 });
  const ask = (id: number, conversation: string, length: number) => {
    scheduler.add(id, request(prompt(length, conversation.charCodeAt(0)), { conversation, maxTokens: 1 }));
    const end = endOf(run(scheduler), id);
    return end.type === "finished" ? end.stats.cachedTokens : -1;
  };
  expect([ask(1, "a", 10), ask(2, "b", 10), ask(3, "a", 20), ask(4, "c", 10)]).toEqual([0, 0, 10, 0]);
  expect([ask(5, "a", 30), ask(6, "b", 20)]).toEqual([20, 0]);
  expect(engine.open.size).toBe(2);
});

test("more requests than sequences wait their turn", () => {
  const { engine, scheduler } = rig({ parallel: 2 });
  for (let id = 1; id <= 5; id++) scheduler.add(id, request(prompt(20 + id, id), { conversation: `c${id}` }));
  const events = run(scheduler);
  for (let id = 1; id <= 5; id++) expect(tokensOf(events, id)).toEqual(expected(prompt(20 + id, id), 8));
  expect(engine.open.size).toBe(2);
});

test("the waiting line has an end", () => {
  const { scheduler } = rig();
  for (let id = 0; id < WAITING_MAX; id++) scheduler.add(id, request([1]));
  expect(() => scheduler.add(WAITING_MAX, request([1]))).toThrow("requests are waiting already");
});

test("a full context is refused before prefill with both counts, and ends decoding with length", () => {
  const { engine, scheduler } = rig({ context: 100 });
  const refused = () => scheduler.add(1, request(prompt(100)));
  expect(refused).toThrow(SurgeError);
  expect(refused).toThrow("The conversation has 100 tokens and the context holds 100");
  expect(engine.open.size).toBe(0);
  scheduler.add(2, request(prompt(95), { maxTokens: 50 }));
  const events = run(scheduler);
  expect(endOf(events, 2)).toMatchObject({ type: "finished", reason: "length", stats: { answerTokens: 6 } });
  expect(tokensOf(events, 2)).toEqual(expected(prompt(95), 6));
  expect(engine.open.get(0)).toHaveLength(100);
});

test("prompts that no engine may see are refused", () => {
  const { scheduler } = rig();
  expect(() => scheduler.add(1, request([]))).toThrow("no tokens");
  for (const wrong of [-1, 1.5, VOCAB, NaN]) {
    expect(() => scheduler.add(1, request([1, wrong]))).toThrow(
      `Token ${wrong} is not in the model's vocabulary of ${VOCAB}`,
    );
  }
  expect(scheduler.busy).toBe(false);
});

test("stop tokens end the answer and are not sent", () => {
  const { scheduler } = rig();
  const answer = expected(prompt(30), 3);
  scheduler.add(1, request(prompt(30), { stopTokens: [answer[2]!] }));
  const events = run(scheduler);
  expect(tokensOf(events, 1)).toEqual(answer.slice(0, 2));
  expect(endOf(events, 1)).toMatchObject({ reason: "stop", stats: { answerTokens: 2 } });
});

test("no tokens are asked for: the prompt is read and nothing said", () => {
  const { engine, scheduler } = rig();
  scheduler.add(1, request(prompt(30), { maxTokens: 0 }));
  const events = run(scheduler);
  expect(tokensOf(events, 1)).toEqual([]);
  expect(endOf(events, 1)).toMatchObject({ reason: "length" });
  expect(engine.draws).toEqual([]);
});

test("a reasoning budget closes the reasoning with the given tokens, and what follows knows of them", () => {
  const { engine, scheduler } = rig();
  const ids = prompt(30);
  scheduler.add(1, request(ids, { maxTokens: 7, budget: { tokens: 3, endId: 900, closeIds: [901, 900] } }));
  const said = tokensOf(run(scheduler), 1);
  const thought = expected(ids, 3);
  expect(said).toEqual([...thought, 901, 900, ...expected([...ids, ...thought, 901, 900], 2)]);
  expect(engine.draws).toEqual([0, 1, 2, 5, 6]);
});

test("a budget of nothing closes at once; reasoning that ended by itself is not closed again", () => {
  const ids = prompt(30);
  const none = rig();
  none.scheduler.add(1, request(ids, { maxTokens: 2, budget: { tokens: 0, endId: 900, closeIds: [900] } }));
  expect(tokensOf(run(none.scheduler), 1)).toEqual([900, expected([...ids, 900], 1)[0]!]);
  const ended = rig();
  const answer = expected(ids, 6);
  ended.scheduler.add(
    1,
    request(ids, { maxTokens: 6, budget: { tokens: 3, endId: answer[1]!, closeIds: [answer[1]!] } }),
  );
  expect(tokensOf(run(ended.scheduler), 1)).toEqual(answer);
});

test("cancelling while waiting, in prefill and in decode ends once and leaves no sequence", () => {
  const { engine, scheduler } = rig();
  scheduler.add(1, request(prompt(500)));
  scheduler.add(2, request(prompt(10), { conversation: "other" }));
  scheduler.step();
  scheduler.cancel(2);
  scheduler.cancel(1);
  const events = run(scheduler);
  for (const id of [1, 2]) expect(endOf(events, id)).toMatchObject({ type: "finished", reason: "cancelled" });
  expect(engine.open.size).toBe(0);
  scheduler.add(3, request(prompt(10), { maxTokens: 100 }));
  for (let i = 0; i < 5; i++) scheduler.step();
  scheduler.cancel(3);
  scheduler.cancel(3);
  expect(endOf(run(scheduler), 3)).toMatchObject({ reason: "cancelled", stats: { answerTokens: 5 } });
  expect(engine.open.size).toBe(0);
});

test("a step that fails ends its requests and the next one works", () => {
  const { engine, scheduler } = rig({ parallel: 2 });
  scheduler.add(1, request(prompt(20), { conversation: "a" }));
  scheduler.add(2, request(prompt(20), { conversation: "b" }));
  scheduler.step();
  engine.failStep = new SurgeError("data", "weights.gguf holds a NaN.");
  const events = run(scheduler);
  for (const id of [1, 2]) {
    expect(endOf(events, id)).toMatchObject({ type: "failed", kind: "data", message: "weights.gguf holds a NaN." });
  }
  expect(engine.open.size).toBe(0);
  scheduler.add(3, request(prompt(20)));
  expect(tokensOf(run(scheduler), 3)).toEqual(expected(prompt(20), 8));
});

test("a sampler that fails ends its own request only", () => {
  const { engine, scheduler } = rig({ parallel: 2 });
  scheduler.add(1, request(prompt(20, 1), { conversation: "a" }));
  scheduler.add(2, request(prompt(20, 2), { conversation: "b" }));
  engine.failSample = new Error("no sampler");
  const events = run(scheduler);
  expect(endOf(events, 1)).toMatchObject({ type: "failed", kind: "internal" });
  expect(tokensOf(events, 2)).toEqual(expected(prompt(20, 2), 8));
  expect(engine.open.size).toBe(1);
});

test("two requests of one conversation at once leave one sequence kept", () => {
  const { engine, scheduler } = rig({ parallel: 2 });
  scheduler.add(1, request(prompt(20, 1)));
  scheduler.add(2, request(prompt(20, 2)));
  const events = run(scheduler);
  for (const id of [1, 2]) expect(tokensOf(events, id)).toEqual(expected(prompt(20, id), 8));
  expect(engine.open.size).toBe(1);
  scheduler.forget("c");
  expect(engine.open.size).toBe(0);
});

test("a borrowed sequence counts: it takes an idle conversation's place and never a working one's", () => {
  const { scheduler } = rig();
  scheduler.add(1, request(prompt(5)));
  scheduler.step();
  expect(scheduler.borrowSequence()).toBeUndefined();
  run(scheduler);
  const sequence = scheduler.borrowSequence()!;
  scheduler.add(2, request(prompt(5)));
  expect(scheduler.step()).toEqual([]);
  scheduler.closeSequence(sequence);
  expect(tokensOf(run(scheduler), 2)).toEqual(expected(prompt(5), 8));
});

test("a plan in which a piece may find no room is refused", () => {
  expect(() => rig({ parallel: 4, stepRows: 66 })).toThrow("stepRows is 66; with parallel 4 it must be at least 67");
});
