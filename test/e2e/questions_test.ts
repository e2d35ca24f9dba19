/**
 * The demonstration model answers its own question set through the whole path: template, tokenizer, engine child, batching, parser.
 * Thresholds: models/demo/README.md. A subtle fault anywhere costs answers long before it shows elsewhere.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type EngineClient, startEngine } from "../../src/engine/client.ts";
import { type AnswerSettings, Conversation, loadModelText } from "../../src/engine/conversation.ts";
import { readModel } from "../../src/model/source.ts";
import { chatPlan } from "../../src/plan/default_plan.ts";
import { readMachine } from "../../src/plan/machine.ts";
import type { Plan } from "../../src/plan/schema.ts";
import type { ChatMessage } from "../../src/text/chat_template.ts";
import { addDelta, emptyAnswer } from "../support/answer.ts";
import { OutputParser, type ParsedDelta, type Tool } from "../../src/text/output_parser.ts";
import { GREEDY } from "../support/native.ts";

const DEMO = join(import.meta.dir, "../../models/demo");
const PARALLEL = 8;
/** Where the reference stopped at the latest (models/demo/maker/questions.py). */
const MAX_TOKENS = 160;

interface Question {
  messages: ChatMessage[];
  tools?: Tool[];
  thinking: boolean;
  answer?: string;
  call?: { name: string; arguments: Record<string, unknown> };
  reference_output: string;
}

interface Answer {
  reasoning: string;
  content: string;
  calls: Array<{ name: string; arguments: unknown }>;
}

async function ask(conversation: Conversation, question: Question): Promise<Answer> {
  const settings: AnswerSettings = { sampler: GREEDY, stop: [], think: question.thinking, maxTokens: MAX_TOKENS };
  if (question.tools !== undefined) settings.tools = question.tools;
  const deltas: ParsedDelta[] = [];
  for await (const delta of conversation.answer(question.messages, settings)) deltas.push(delta);
  return collect(deltas);
}

function collect(deltas: ParsedDelta[]): Answer {
  const whole = emptyAnswer();
  for (const delta of deltas) addDelta(whole, delta);
  const calls = whole.calls.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) as unknown }));
  return { reasoning: whole.reasoning, content: whole.content, calls };
}

function isRight(question: Question, answer: Answer): boolean {
  if (question.call !== undefined) return JSON.stringify(answer.calls) === JSON.stringify([question.call]);
  return answer.content.trim() === question.answer?.trim() && answer.calls.length === 0;
}

/** The reference's text, cut by the same parser. */
function equalsReference(question: Question, answer: Answer): boolean {
  const parser = new OutputParser({ start: question.thinking ? "think" : "answer", tools: question.tools ?? [] });
  const want = collect([...parser.push(question.reference_output), ...parser.finish()]);
  return JSON.stringify(want.calls) === JSON.stringify(answer.calls) && answer.reasoning === want.reasoning &&
    answer.content.trim() === want.content.trim();
}

async function score(
  client: EngineClient,
  path: string,
  precision: Plan["precision"],
): Promise<{ right: number; equal: number }> {
  const manifest = readModel(path);
  const plan = chatPlan(manifest.config, {
    flags: { precision, parallel: PARALLEL, context: 2048 },
    machine: readMachine(),
  });
  await client.open(manifest, plan);
  const text = loadModelText(manifest);
  const questions = readFileSync(join(DEMO, "questions.jsonl"), "utf8").trim().split("\n").map((line) =>
    JSON.parse(line) as Question
  );
  const total = { right: 0, equal: 0 };
  let next = 0;
  const worker = async (name: string) => {
    const conversation = new Conversation(client, { text, plan, name });
    while (next < questions.length) {
      const question = questions[next++]!;
      const answer = await ask(conversation, question);
      if (isRight(question, answer)) total.right++;
      if (equalsReference(question, answer)) total.equal++;
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, (_, i) => worker(`questions-${i}`)));
  return total;
}

/** What exact precision got, for fast to be compared with. */
const exactly = new Map<string, number>();

test.each(
  [
    ["hf", "exact", 267, 298],
    ["demo-q8_0.gguf", "exact", 264, 0],
    ["demo-q4_k.gguf", "exact", 264, 0],
    ["demo-q8_0.gguf", "fast", 264, 0],
    ["demo-q4_k.gguf", "fast", 264, 0],
  ] as const,
)("%s, %s", async (file, precision, right, equal) => {
  const client = startEngine();
  try {
    const got = await score(client, join(DEMO, file), precision);
    process.stderr.write(`${file}, ${precision}: ${got.right} right, ${got.equal} as the reference\n`);
    expect(got.right).toBeGreaterThanOrEqual(right);
    expect(got.equal).toBeGreaterThanOrEqual(equal);
    if (precision === "exact") exactly.set(file, got.right);
    else expect(Math.abs(got.right - exactly.get(file)!)).toBeLessThanOrEqual(1);
  } finally {
    await client.close();
  }
}, 300_000);
