/**
 * From the word a person types to a manifest: a GGUF file (any part of a split one), a Hugging Face folder, or a manifest file.
 * Reads headers only.
 */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { SurgeError } from "../base/errors.ts";
import type { GgufSource, HuggingFaceSource, ModelSource } from "./adapters/adapter.ts";
import { checkConfig } from "./adapters/check_config.ts";
import { ADAPTERS } from "./adapters/index.ts";
import { isEmbedded, readJson, statFile, withFile } from "./file_reader.ts";
import { type GgufMetadata, readGguf } from "./gguf.ts";
import { Manifest, type SamplingDefaults } from "./manifest.ts";
import { checkManifest } from "./manifest_check.ts";
import { readSafetensors } from "./safetensors.ts";
import { quoted } from "./untrusted_text.ts";

type Json = Record<string, unknown>;

function object(path: string): Json {
  const value = readJson(path);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SurgeError("data", `${path} is not a JSON object.`);
  }
  return value as Json;
}

function optionalObject(path: string): Json {
  return existsSync(path) ? object(path) : {};
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** A count; some files write -1 for "off", which is 0 here. */
function countOf(value: unknown): number | undefined {
  const number = numberOf(value);
  return number === undefined ? undefined : Math.max(0, Math.trunc(number));
}

function adapt(source: ModelSource): ReturnType<(typeof ADAPTERS)[number]["build"]> & { family: string } {
  const adapter = ADAPTERS.find((candidate) => candidate.matches(source));
  if (adapter === undefined) {
    const found = source.format === "gguf" ? source.metadata.get("general.architecture") : source.config["model_type"];
    const known = ADAPTERS.map((each) => each.family).join(", ");
    throw new SurgeError(
      "data",
      `${source.path} is a model of the family ${quoted(found)}, which is not supported (supported: ${known}).`,
    );
  }
  const built = adapter.build(source);
  checkConfig(built.config, source.path);
  return { ...built, family: adapter.family };
}

/* ---- GGUF ---- */

function samplingOfMetadata(metadata: GgufMetadata): SamplingDefaults {
  const get = (key: string) => numberOf(metadata.get(`general.sampling.${key}`));
  return withoutUndefined({
    temperature: get("temp"),
    topK: countOf(get("top_k")),
    topP: get("top_p"),
    minP: get("min_p"),
    repeatPenalty: get("penalty_repeat"),
  });
}

function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as T;
}

function fromGguf(path: string): Manifest {
  const model = readGguf(path);
  const source: GgufSource = { format: "gguf", path, ...model };
  const built = adapt(source);
  const stops = ["eos_token_id", "eot_token_id"].map((key) => numberOf(model.metadata.get(`tokenizer.ggml.${key}`)));
  return {
    schema: "surge.manifest/1",
    family: built.family,
    name: textOf(model.metadata.get("general.name")) ?? basename(path),
    format: "gguf",
    config: built.config,
    files: model.files,
    tensors: built.tensors,
    text: { kind: "gguf", file: 0 },
    stopTokens: eosIds(...stops),
    sampling: samplingOfMetadata(model.metadata),
    ignored: built.ignored,
  };
}

/* ---- Hugging Face ---- */

function eosIds(...values: unknown[]): number[] {
  const ids = values.flatMap((value) => Array.isArray(value) ? value : [value]).filter((id) =>
    Number.isInteger(id) && (id as number) >= 0
  );
  return [...new Set(ids as number[])];
}

function samplingOfGeneration(generation: Json): SamplingDefaults {
  if (generation["do_sample"] === false) return { temperature: 0 };
  return withoutUndefined({
    temperature: numberOf(generation["temperature"]),
    topK: countOf(generation["top_k"]),
    topP: numberOf(generation["top_p"]),
    minP: numberOf(generation["min_p"]),
    presencePenalty: numberOf(generation["presence_penalty"]),
    repeatPenalty: numberOf(generation["repetition_penalty"]),
  });
}

function fromFolder(folder: string): Manifest {
  const config = object(join(folder, "config.json"));
  const generation = optionalObject(join(folder, "generation_config.json"));
  const source: HuggingFaceSource = {
    format: "safetensors",
    path: folder,
    config,
    generation,
    ...readSafetensors(folder),
  };
  const built = adapt(source);
  const optional = (name: string) => existsSync(join(folder, name)) ? join(folder, name) : undefined;
  const nested = config["text_config"] as Json | undefined;
  return {
    schema: "surge.manifest/1",
    family: built.family,
    name: basename(resolve(folder)),
    format: "safetensors",
    config: built.config,
    files: source.files,
    tensors: built.tensors,
    text: withoutUndefined({
      kind: "huggingface" as const,
      tokenizer: join(folder, "tokenizer.json"),
      tokenizerConfig: optional("tokenizer_config.json"),
      chatTemplate: optional("chat_template.jinja"),
    }),
    stopTokens: eosIds(generation["eos_token_id"], nested?.["eos_token_id"] ?? config["eos_token_id"]),
    sampling: samplingOfGeneration(generation),
    ignored: built.ignored,
  };
}

/* ---- manifest ---- */

function fromManifest(path: string): Manifest {
  const parsed = Manifest.safeParse(readJson(path));
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    throw new SurgeError(
      "data",
      `${path} is not a manifest of this version: ${issue.path.join(".") || "the document"}: ${issue.message}.`,
    );
  }
  const manifest = parsed.data;
  const place = (file: string) => isAbsolute(file) ? file : join(dirname(path), file);
  checkManifest(manifest, path);
  checkConfig(manifest.config, path);
  const text = manifest.text.kind === "gguf" ? manifest.text : withoutUndefined({
    kind: manifest.text.kind,
    tokenizer: place(manifest.text.tokenizer),
    tokenizerConfig: manifest.text.tokenizerConfig && place(manifest.text.tokenizerConfig),
    chatTemplate: manifest.text.chatTemplate && place(manifest.text.chatTemplate),
  });
  return { ...manifest, text, files: manifest.files.map((file) => ({ ...file, path: place(file.path) })) };
}

function isGguf(path: string): boolean {
  return withFile(path, (reader) => reader.size >= 4 && reader.read(0, 4).toString("latin1") === "GGUF");
}

/** The manifest of what `path` names. Errors are one sentence naming the file. */
export function readModel(path: string): Manifest {
  if (isEmbedded(path)) return fromGguf(path);
  if (!existsSync(path)) {
    throw new SurgeError(
      "missing",
      `${path} is not there; MODEL is "demo", a GGUF file, a model folder or a manifest.`,
    );
  }
  if (statSync(path).isDirectory()) {
    if (existsSync(join(path, "config.json"))) return fromFolder(path);
    throw new SurgeError(
      "missing",
      `${path} holds no config.json; a model folder has one beside its .safetensors files.`,
    );
  }
  if (path.endsWith(".safetensors")) {
    throw new SurgeError("usage", `${path} is one file of a model; give its folder ${dirname(path)}.`);
  }
  return isGguf(path) || !path.endsWith(".json") ? fromGguf(path) : fromManifest(path);
}

/** What is wrong with the files now, against what the manifest says; undefined when nothing changed. */
export function changedFile(manifest: Manifest): string | undefined {
  for (const file of manifest.files) {
    if (isEmbedded(file.path)) continue;
    if (!existsSync(file.path)) return `${file.path} was removed while it was in use.`;
    const now = statFile(file.path);
    if (now.bytes !== file.bytes) {
      return `${file.path} changed while it was in use: it had ${file.bytes} bytes and has ${now.bytes}.`;
    }
    if (now.mtimeNs !== file.mtimeNs || now.inode !== file.inode) return `${file.path} changed while it was in use.`;
  }
  return undefined;
}
