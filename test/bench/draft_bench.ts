/**
 * What drafting gains: answers to the demonstration model's questions with each way of guessing, through the same scheduler and engine that
 * the program uses, with real time. Rounds go through all ways in turn, so that a machine whose speed moves favours none; beside the median
 * over rounds stands the speed from each answer's quickest round, which a busy machine disturbs least.
 *
 *   node_modules/.bin/bun test/bench/draft_bench.ts [MODEL] [ROUNDS] [QUESTIONS] [THREADS] [REPEAT]
 *
 * REPEAT adds the text of the answer to the question, as a summary or an edit would: text that look-up can find.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { NativeEngine } from "../../ffi/engine.ts";
import { monotonicClock } from "../../src/base/clock.ts";
import { loadModelText } from "../../src/engine/conversation.ts";
import { readModel } from "../../src/model/source.ts";
import type { Plan } from "../../src/plan/schema.ts";
import { Scheduler } from "../../src/sched/scheduler.ts";
import { GREEDY, testLibrary, testPlan } from "../support/native.ts";

const DEMO = join(import.meta.dir, "../../models/demo");
const [path = join(DEMO, "demo-q4_k.gguf"), rounds = "5", count = "40", threads = "2", repeat] = process.argv.slice(2);

const WAYS: Array<Pick<Plan, "draft" | "draftTokens">> = [
  { draft: "none", draftTokens: 1 },
  { draft: "mtp", draftTokens: 1 },
  { draft: "mtp", draftTokens: 2 },
  { draft: "mtp", draftTokens: 3 },
  { draft: "lookup", draftTokens: 2 },
  { draft: "lookup", draftTokens: 4 },
];

const manifest = readModel(path);
const { template, stopTokens } = loadModelText(manifest);
const prompts = readFileSync(join(DEMO, "questions.jsonl"), "utf8").split("\n", 300)
  .filter((_, i) => i % Math.ceil(300 / Number(count)) === 0)
  .map((line) => {
    const { messages, reference_output } = JSON.parse(line);
    const asked = repeat === undefined
      ? messages
      : [...messages, { role: "assistant", content: reference_output }, messages.at(-1)];
    return template!.encode(asked, { add_generation_prompt: true, tools: null });
  });

/** Tokens per second of decoding, and what became of the guesses. */
function round(way: Pick<Plan, "draft" | "draftTokens">) {
  const plan = testPlan({ precision: "fast", kv: "f16", threads: Number(threads), context: 1024, parallel: 1, ...way });
  const engine = new NativeEngine(testLibrary(), manifest, plan);
  const scheduler = new Scheduler(engine, { ...plan, vocab: engine.vocab }, monotonicClock);
  const total = { tokens: 0, ms: 0, drafted: 0, accepted: 0, each: [] as number[] };
  prompts.forEach((ids, id) =>
    scheduler.add(id, { ids, conversation: `${id}`, maxTokens: 128, stopTokens, sampler: GREEDY })
  );
  while (scheduler.busy) {
    for (const event of scheduler.step()) {
      if (event.type === "failed") throw new Error(event.message);
      if (event.type !== "finished") continue;
      total.tokens += event.stats.answerTokens;
      total.ms += event.stats.decodeMs;
      total.each[event.id] = event.stats.decodeMs;
      total.drafted += event.stats.draftedTokens;
      total.accepted += event.stats.acceptedTokens;
    }
  }
  engine.close();
  return total;
}

const results = WAYS.map(() => [] as Array<ReturnType<typeof round>>);
for (let i = 0; i < Number(rounds); i++) WAYS.forEach((way, w) => results[w]!.push(round(way)));

const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
const sum = (values: number[]) => values.reduce((total, one) => total + one, 0);
const speedsOf = (each: Array<ReturnType<typeof round>>) => each.map(({ tokens, ms }) => tokens / ms * 1000);
const quickest = (each: Array<ReturnType<typeof round>>) =>
  each[0]!.tokens / sum(prompts.map((_, i) => Math.min(...each.map((one) => one.each[i]!)))) * 1000;

const plain = results[0]!;
console.log(`${prompts.length} questions, ${plain[0]!.tokens} tokens, ${rounds} rounds, ${threads} threads`);
WAYS.forEach(({ draft, draftTokens }, w) => {
  const mine = results[w]!;
  const [drafted, accepted] = (["drafted", "accepted"] as const).map((field) => median(mine.map((one) => one[field])));
  const speeds = [median(speedsOf(mine)), quickest(mine)] as const;
  const gains = [speeds[0] / median(speedsOf(plain)), speeds[1] / quickest(plain)] as const;
  console.log(
    `${draft} ${draftTokens}: median ${speeds[0].toFixed(0)} tok/s (${gains[0].toFixed(2)}x), ` +
      `quickest ${speeds[1].toFixed(0)} tok/s (${gains[1].toFixed(2)}x), ${mine[0]!.tokens} tokens, ` +
      (drafted === 0 ? "no guesses" : `${accepted} of ${drafted} guesses right`),
  );
});
