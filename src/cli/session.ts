/** From parsed flags to an open model: what `chat`, `run` and `logits` have in common. */
import { randomInt } from "node:crypto";
import { SurgeError } from "../base/errors.ts";
import { log, oneLine } from "../base/log.ts";
import { startProgress } from "../base/progress.ts";
import { type EngineClient, startEngine } from "../engine/client.ts";
import { type AnswerSettings, loadModelText, type ModelText } from "../engine/conversation.ts";
import { demoModelPath } from "../engine/embedded.ts";
import type { SamplerOptions } from "../engine/protocol.ts";
import { describeRange, isPossible, NUMBER_SETTINGS, type NumberSetting, putSetting } from "../engine/settings.ts";
import type { Manifest } from "../model/manifest.ts";
import { readModel } from "../model/source.ts";
import { chatPlan, type PlanFlags } from "../plan/default_plan.ts";
import { readCpuList, readMachine } from "../plan/machine.ts";
import type { Plan } from "../plan/schema.ts";
import type { Parsed } from "./flags.ts";

/** The manifest of MODEL; "demo" is the model inside the program. */
export function manifestOf(model: string): Manifest {
  if (model === "demo") return { ...readModel(demoModelPath()), name: "demo" };
  const manifest = readModel(model);
  return { ...manifest, name: oneLine(manifest.name) };
}

function cpusOf(args: Parsed): number[] | undefined {
  const text = args.text("cpus");
  if (text === undefined) return undefined;
  const cpus = readCpuList(text);
  if (cpus !== undefined) return cpus;
  throw new SurgeError("usage", `--cpus takes CPU numbers such as 0,1 or 0-3,8, not "${oneLine(text.slice(0, 40))}".`);
}

export function planFlags(args: Parsed): PlanFlags {
  const kv = args.text("kv") as PlanFlags["kv"];
  const precision = args.text("precision") as PlanFlags["precision"];
  const weights = args.text("weights") as PlanFlags["weights"];
  const draft = args.text("draft") as PlanFlags["draft"];
  const draftTokens = args.number("draft-tokens");
  const threads = args.number("threads");
  const context = args.number("ctx");
  const cpus = cpusOf(args);
  const mlock = args.toggle("mlock");
  return {
    ...(cpus === undefined ? {} : { cpus }),
    ...(mlock === undefined ? {} : { mlock }),
    ...(threads === undefined ? {} : { threads }),
    ...(context === undefined ? {} : { context }),
    ...(precision === undefined ? {} : { precision }),
    ...(weights === undefined ? {} : { weights }),
    ...(kv === undefined ? {} : { kv }),
    ...(draft === undefined ? {} : { draft }),
    ...(draftTokens === undefined ? {} : { draftTokens }),
  };
}

/** What neither a flag nor the model says. */
const NEUTRAL: Omit<SamplerOptions, "seed"> = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repeatPenalty: 1,
  logitBias: [],
};

/** Flags first, then what the model itself says where that is possible, then neutral values. */
export function answerSettings(args: Parsed, manifest: Manifest): AnswerSettings {
  const own: Partial<Record<NumberSetting["field"], number>> = manifest.sampling;
  const settings: AnswerSettings = { sampler: { ...NEUTRAL, seed: randomInt(2 ** 47) }, stop: args.texts("stop") };
  for (const setting of NUMBER_SETTINGS) {
    const given = args.number(setting.name);
    const models = own[setting.field];
    if (given !== undefined) putSetting(settings, setting, given);
    else if (models !== undefined && isPossible(models, setting)) putSetting(settings, setting, models);
    else if (models !== undefined) {
      log.warn(`${manifest.name} asks for a ${setting.name} of ${models}, which is not ${describeRange(setting)}.`);
    }
  }
  const think = args.toggle("think");
  if (think !== undefined) settings.think = think;
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
