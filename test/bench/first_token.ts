/**
 * Warm start to the first token: a fresh process opens a model as a chat does (tokenizer made while the child maps the weights) and answers
 * a prompt of 16 tokens. Prints each run and the median; exit code 1 where the median is above 3 s.
 *
 *   bun test/bench/first_token.ts MODEL.gguf [tokenizer.json]     the tokenizer's cost, for models that carry a small one
 */
import { readFileSync } from "node:fs";
import { startEngine } from "../../src/engine/client.ts";
import { loadModelText } from "../../src/engine/conversation.ts";
import { readModel } from "../../src/model/source.ts";
import { chatPlan } from "../../src/plan/default_plan.ts";
import { readMachine } from "../../src/plan/machine.ts";
import { Tokenizer, type TokenizerJson } from "../../src/text/tokenizer.ts";
import { percentile } from "../../src/tools/roofline.ts";
import { greedyRequest } from "../support/engine.ts";

const RUNS = 5;
const PROMPT_TOKENS = 16;
const TARGET_MS = 3000;
const TEXT =
  "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen. ";

/** Milliseconds from this process's start to the first token. */
async function once(model: string, tokenizerPath: string | undefined): Promise<number> {
  const manifest = readModel(model);
  const client = startEngine();
  const opening = client.open(manifest, chatPlan(manifest.config, { flags: {}, machine: readMachine() }));
  const tokenizer = tokenizerPath === undefined
    ? loadModelText(manifest).tokenizer
    : new Tokenizer(JSON.parse(readFileSync(tokenizerPath, "utf8")) as TokenizerJson);
  const ids = tokenizer.encode(TEXT, "none").slice(0, PROMPT_TOKENS);
  if (ids.length !== PROMPT_TOKENS) throw new Error(`the prompt has ${ids.length} tokens`);
  await opening;
  const generation = client.generate(greedyRequest(ids, { maxTokens: 1 }));
  for await (const [token] of generation) tokenizer.decode([token!]);
  const ms = performance.now();
  await client.close();
  return ms;
}

function repeated(words: string[]): void {
  const times = Array.from({ length: RUNS }, () => {
    const ran = Bun.spawnSync([process.execPath, import.meta.path, ...words, "--once"], { stdin: "ignore" });
    if (ran.exitCode !== 0) throw new Error(ran.stderr.toString());
    return Number(ran.stdout.toString());
  });
  const median = percentile(times, 0.5);
  process.stdout.write(`${times.map((ms) => ms.toFixed(0)).join(" ")} ms; median ${median.toFixed(0)} ms\n`);
  process.exitCode = median <= TARGET_MS ? 0 : 1;
}

const words = process.argv.slice(2).filter((word) => word !== "--once");
if (words[0] === undefined) throw new Error("usage: first_token.ts MODEL [tokenizer.json]");
if (process.argv.includes("--once")) process.stdout.write(`${await once(words[0], words[1])}\n`);
else repeated(words);
