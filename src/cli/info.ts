/** `surge info`: this machine, and a model as its headers describe it. */
import { arch, cpus, release } from "node:os";
import { EXIT, SurgeError } from "../base/errors.ts";
import { oneLine } from "../base/log.ts";
import { formatBytes } from "../base/units.ts";
import { startEngine } from "../engine/client.ts";
import type { Manifest } from "../model/manifest.ts";
import { readMachine } from "../plan/machine.ts";
import { loadProfile, type Profile, profilePlace } from "../plan/profile.ts";
import { VERSION } from "../base/version.ts";
import { type Command, modelAndRest } from "./command.ts";
import { MODEL_FLAG } from "./flags.ts";
import { manifestOf } from "./session.ts";
import { writeOut } from "./stdio.ts";

/** The library is asked in a child, as always; without it there is no engine either, so its failure is the command's. */
async function cpuIsa(): Promise<string> {
  const client = startEngine();
  try {
    return (await client.machine()).isa;
  } finally {
    await client.close();
  }
}

async function machineFacts() {
  const machine = readMachine();
  return {
    version: VERSION,
    processor: cpus()[0]?.model.trim() ?? arch(),
    architecture: arch(),
    kernel: release(),
    cores: machine.cores,
    memory_bytes: machine.memoryBytes,
    available_bytes: machine.availableBytes,
    isa: await cpuIsa(),
    devices: ["cpu"],
  };
}

/** The kept figures, or why they are refused: a machine is looked at above all when something is wrong with it. */
function profileFacts(): { figures: Profile["figures"] } | { refused: string } | undefined {
  try {
    const profile = loadProfile(profilePlace());
    return profile && { figures: profile.figures };
  } catch (thrown) {
    if (thrown instanceof SurgeError) return { refused: thrown.message };
    throw thrown;
  }
}

function profileLines(profile: ReturnType<typeof profileFacts>): Record<string, string> {
  if (profile === undefined) return { profile: "none; surge bench bandwidth --save-profile measures" };
  if ("refused" in profile) return { profile: `refused: ${oneLine(profile.refused)}` };
  const text = profile.figures.map(({ isa, threads, bandwidth_gbps, int8_gops, measured }) =>
    `${isa} on ${threads} ${threads === 1 ? "thread" : "threads"}: ${bandwidth_gbps.toFixed(1)} GB/s, ${
      int8_gops.toFixed(0)
    } GOPS (${measured.slice(0, 10)})`
  );
  return { profile: text.join("; ") };
}

function modelFacts(manifest: Manifest) {
  const byDtype: Record<string, number> = {};
  const { config } = manifest;
  let parameters = 0;
  let prediction = 0;
  for (const tensor of manifest.tensors) {
    const elements = tensor.rows * tensor.cols * tensor.expertCount;
    if (tensor.layer < config.layers) parameters += elements;
    else prediction += elements;
    byDtype[tensor.dtype] = (byDtype[tensor.dtype] ?? 0) + elements;
  }
  return {
    name: manifest.name,
    family: manifest.family,
    format: manifest.format,
    file_bytes: manifest.files.reduce((sum, file) => sum + file.bytes, 0),
    files: manifest.files.length,
    parameters,
    prediction_parameters: prediction,
    parameters_by_type: byDtype,
    layers: config.layers,
    attention_layers: config.layerKinds.filter((kind) => kind === "attention").length,
    hidden: config.hidden,
    experts: config.experts,
    experts_used: config.expertsUsed,
    vocabulary: config.vocab,
    context: config.context,
    ignored_tensors: manifest.ignored,
  };
}

function lines(facts: Record<string, unknown>): string {
  const shown = Object.entries(facts).map(([key, value]): [string, string] => {
    if (key.endsWith("_bytes")) return [key.replace(/_bytes$/, ""), formatBytes(value as number)];
    if (typeof value !== "object" || value === null) return [key, String(value)];
    return [
      key,
      Array.isArray(value) ? value.join(", ") : Object.entries(value).map(([k, v]) => `${k} ${v}`).join(", "),
    ];
  });
  const width = Math.max(...shown.map(([key]) => key.length));
  return shown.map(([key, value]) => `${key.replaceAll("_", " ").padEnd(width)}  ${value}\n`).join("");
}

export const info: Command = {
  name: "info",
  summary: "facts about this machine and a model",
  usage: "[MODEL] [--json]",
  most: 1,
  flags: [MODEL_FLAG, { name: "json", kind: "switch", help: "as JSON" }],
  async run(args) {
    const word = modelAndRest(args).model;
    const machine = await machineFacts();
    const model = word === undefined ? undefined : modelFacts(manifestOf(word));
    const profile = profileFacts();
    if (args.toggle("json")) {
      const facts = { machine: { ...machine, profile: profile ?? null }, ...(model && { model }) };
      await writeOut(`${JSON.stringify(facts, null, 2)}\n`);
    } else {await writeOut(
        lines({ ...machine, ...profileLines(profile) }) + (model === undefined ? "" : `\n${lines(model)}`),
      );}
    return EXIT.ok;
  },
};
