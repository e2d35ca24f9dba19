/** From parsed flags to an open model: what `chat`, `run` and `logits` have in common. */
import { randomInt } from "node:crypto";
import { SurgeError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { startProgress } from "../base/progress.ts";
import { type EngineClient, startEngine } from "../engine/client.ts";
import { type AnswerSettings, loadModelText, type ModelText } from "../engine/conversation.ts";
import { demoModelPath } from "../engine/embedded.ts";
import type { Manifest } from "../model/manifest.ts";
import { readModel } from "../model/source.ts";
import { chatPlan, type PlanFlags } from "../plan/default_plan.ts";
import { readMachine } from "../plan/machine.ts";
import type { Plan } from "../plan/schema.ts";
import type { Parsed } from "./flags.ts";

/** The manifest of MODEL; "demo" is the model inside the program. */
export function manifestOf(model: string): Manifest {
  return model === "demo" ? { ...readModel(demoModelPath()), name: "demo" } : readModel(model);
}

export function planFlags(args: Parsed): PlanFlags {
  const kv = args.text("kv");
  if (kv !== undefined && kv !== "f16" && kv !== "f32") {
    throw new SurgeError("usage", `--kv takes f16 or f32, not "${kv}".`);
  }
  const threads = args.number("threads");
  const context = args.number("ctx");
  return {
    ...(threads === undefined ? {} : { threads }),
    ...(context === undefined ? {} : { context }),
    ...(kv === undefined ? {} : { kv }),
  };
}

/** Flags first, then what the model itself says, then neutral values. */
export function answerSettings(args: Parsed, manifest: Manifest): AnswerSettings {
  const own = manifest.sampling;
  const settings: AnswerSettings = {
    sampler: {
      temperature: args.number("temperature") ?? own.temperature ?? 1,
      topK: args.number("top-k") ?? own.topK ?? 0,
      topP: args.number("top-p") ?? own.topP ?? 1,
      minP: args.number("min-p") ?? own.minP ?? 0,
      presencePenalty: args.number("presence-penalty") ?? own.presencePenalty ?? 0,
      frequencyPenalty: args.number("frequency-penalty") ?? 0,
      repeatPenalty: args.number("repeat-penalty") ?? own.repeatPenalty ?? 1,
      seed: args.number("seed") ?? randomInt(2 ** 47),
      logitBias: [],
    },
    stop: args.texts("stop"),
  };
  const maxTokens = args.number("max-tokens");
  const think = args.toggle("think");
  const reasoningBudget = args.number("reasoning-budget");
  if (maxTokens !== undefined) settings.maxTokens = maxTokens;
  if (think !== undefined) settings.think = think;
  if (reasoningBudget !== undefined) settings.reasoningBudget = reasoningBudget;
  return settings;
}

export interface OpenModel {
  client: EngineClient;
  manifest: Manifest;
  plan: Plan;
  text: ModelText;
}

/** Opens an engine for the plan, with a bar where it takes more than a second. */
export async function openEngine(manifest: Manifest, plan: Plan): Promise<EngineClient> {
  const client = startEngine();
  const progress = startProgress({
    label: `Loading ${manifest.name}`,
    isTty: process.stderr.isTTY === true,
    write: (text) => void process.stderr.write(text),
  });
  try {
    const { warning } = await client.open(manifest, plan, {
      onProgress: (done, total) => progress.update(done, total),
    });
    progress.end();
    if (warning !== undefined) log.warn(warning);
    return client;
  } catch (thrown) {
    progress.end();
    await client.close();
    throw thrown;
  }
}

/** The model ready to talk; the tokenizer is made while the child maps the weights. */
export async function openForChat(model: string, args: Parsed): Promise<OpenModel> {
  const manifest = manifestOf(model);
  const plan = chatPlan(manifest.config, { flags: planFlags(args), machine: readMachine() });
  const opening = openEngine(manifest, plan);
  try {
    const text = loadModelText(manifest);
    return { client: await opening, manifest, plan, text };
  } catch (thrown) {
    await opening.then((client) => client.close(), () => {});
    throw thrown;
  }
}
