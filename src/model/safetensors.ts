/**
 * safetensors headers, single file or shards with or without an index.
 *
 *   header length u64 | JSON {name: {dtype, shape, data_offsets}} | data
 *
 * The data is never read. Source: the safetensors format description.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { SurgeError } from "../base/errors.ts";
import { listFolder, readJson, statFile, withFile } from "./file_reader.ts";
import type { ManifestFile } from "./manifest.ts";
import { addTensor, checkRanges, LIMITS, type StoredTensor } from "./tensor_index.ts";
import { printableName, quoted } from "./untrusted_text.ts";

export interface SafetensorsModel {
  files: ManifestFile[];
  tensors: Map<string, StoredTensor>;
}

const HEADER_LIMIT_BYTES = 100_000_000;
const MAX_SHARDS = 10_000;
const BYTES: Record<string, number> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  U64: 8,
  I32: 4,
  U32: 4,
  I16: 2,
  U16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
};

const Entry = z.object({
  dtype: z.string().regex(/^\w{1,32}$/),
  shape: z.array(z.number().int().nonnegative()).max(LIMITS.dimensions),
  data_offsets: z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]),
});
const Index = z.object({ weight_map: z.record(z.string(), z.string()) });

function readHeader(path: string): { entries: Record<string, unknown>; dataStart: number } {
  return withFile(path, (reader) => {
    if (reader.size < 8) {
      throw new SurgeError("data", `${path} is too short to be a safetensors file (${reader.size} bytes).`);
    }
    const length = reader.read(0, 8).readBigUInt64LE(0);
    if (length > BigInt(HEADER_LIMIT_BYTES) || length > BigInt(reader.size - 8)) {
      throw new SurgeError(
        "data",
        `${path} claims a header of ${length} bytes; it is truncated or not a safetensors file.`,
      );
    }
    const text = reader.read(8, Number(length)).toString("utf8");
    return { entries: parseHeader(text, path), dataStart: 8 + Number(length) };
  });
}

function parseHeader(text: string, path: string): Record<string, unknown> {
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    entries = undefined;
  }
  if (typeof entries !== "object" || entries === null || Array.isArray(entries)) {
    throw new SurgeError(
      "data",
      `${path} has a header that is not a JSON object; it is damaged or not a safetensors file.`,
    );
  }
  const keys = topLevelKeys(text);
  if (keys.length !== Object.keys(entries).length) {
    const seen = new Set<string>();
    const twice = keys.find((key) => seen.size === seen.add(key).size);
    throw new SurgeError("data", `${path}: tensor ${quoted(twice)} is listed twice.`);
  }
  return entries as Record<string, unknown>;
}

/** Keys of the outermost object of valid JSON, repeated ones too: JSON.parse keeps only the last of equal keys. */
function topLevelKeys(text: string): string[] {
  const keys: string[] = [];
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") depth--;
    else if (c === '"') {
      const begin = i++;
      for (; text[i] !== '"'; i++) if (text[i] === "\\") i++;
      const end = i + 1;
      if (depth === 1 && isKey(text, end)) keys.push(JSON.parse(text.slice(begin, end)) as string);
    }
  }
  return keys;
}

function isKey(text: string, at: number): boolean {
  while (/\s/.test(text[at] ?? "")) at++;
  return text[at] === ":";
}

function storedTensor(
  name: string,
  value: unknown,
  where: { path: string; file: number; dataStart: number },
): StoredTensor {
  printableName(name, where.path, `the name of a tensor`);
  if (name.length > LIMITS.nameBytes) {
    throw new SurgeError("data", `${where.path}: the name of a tensor has ${name.length} characters.`);
  }
  const parsed = Entry.safeParse(value);
  if (!parsed.success) throw new SurgeError("data", `${where.path}: the entry of tensor ${name} is malformed.`);
  const { dtype, shape, data_offsets: [begin, end] } = parsed.data;
  const elements = shape.reduce((product, dim) => product * dim, 1);
  const size = BYTES[dtype];
  if (!Number.isSafeInteger(elements) || end < begin || (size !== undefined && end - begin !== elements * size)) {
    throw new SurgeError(
      "data",
      `${where.path}: tensor ${name} of shape ${shape.join(" x ")} (${dtype}) does not fit its ${end - begin} bytes.`,
    );
  }
  return { name, dtype, shape, file: where.file, offset: where.dataStart + begin, bytes: end - begin };
}

function addFile(model: SafetensorsModel, path: string): void {
  const { entries, dataStart } = readHeader(path);
  const file = model.files.length;
  model.files.push(statFile(path));
  const names = Object.keys(entries).filter((name) => name !== "__metadata__");
  if (names.length + model.tensors.size > LIMITS.tensors) {
    throw new SurgeError("data", `${path} lists ${names.length} tensors; it is damaged.`);
  }
  for (const name of names) {
    addTensor(model.tensors, storedTensor(name, entries[name], { path, file, dataStart }), path);
  }
}

function indexedFiles(folder: string, indexPath: string): { files: string[]; weightMap: Record<string, string> } {
  const parsed = Index.safeParse(readJson(indexPath));
  if (!parsed.success) throw new SurgeError("data", `${indexPath} has no usable weight_map.`);
  const files = [...new Set(Object.values(parsed.data.weight_map))].sort();
  for (const file of files) {
    if (!/^[^/\\\p{C}]{1,255}$/u.test(file)) {
      throw new SurgeError("data", `${indexPath} names ${quoted(file)}, which is not a plain file name.`);
    }
    if (!existsSync(join(folder, file))) {
      throw new SurgeError("missing", `${join(folder, file)} is missing; ${indexPath} lists it.`);
    }
  }
  return { files, weightMap: parsed.data.weight_map };
}

/** Parts that a name of the form model-00001-of-00003 promises but the folder lacks. */
function checkNumbering(folder: string, files: string[]): void {
  const present = new Set(files);
  for (const file of files) {
    /* The first part speaks for all; without it the part found speaks, and the first is what is missing. */
    const match = /^(.*)-\d{5}-of-(\d{5})\.safetensors$/.exec(file);
    if (match !== null && !file.includes("-00001-of-") && present.has(`${match[1]}-00001-of-${match[2]}.safetensors`)) {
      continue;
    }
    for (let i = 1; match !== null && i <= Math.min(Number(match[2]), MAX_SHARDS); i++) {
      const name = `${match[1]}-${String(i).padStart(5, "0")}-of-${match[2]}.safetensors`;
      if (!present.has(name)) throw new SurgeError("missing", `${join(folder, name)} is missing; fetch it again.`);
    }
  }
}

/** All tensors of a Hugging Face folder. */
export function readSafetensors(folder: string): SafetensorsModel {
  const indexPath = join(folder, "model.safetensors.index.json");
  const index = existsSync(indexPath) ? indexedFiles(folder, indexPath) : undefined;
  const files = index?.files ?? listFolder(folder).filter((name) => name.endsWith(".safetensors")).sort();
  if (files.length === 0) throw new SurgeError("missing", `${folder} holds no .safetensors file.`);
  if (files.length > MAX_SHARDS) throw new SurgeError("data", `${folder} holds ${files.length} shards.`);
  checkNumbering(folder, files);
  const model: SafetensorsModel = { files: [], tensors: new Map() };
  for (const file of files) addFile(model, join(folder, file));
  for (const [name, file] of Object.entries(index?.weightMap ?? {})) {
    if (!model.tensors.has(name)) {
      throw new SurgeError("data", `${join(folder, file)} lacks tensor ${quoted(name)}, which ${indexPath} promises.`);
    }
  }
  checkRanges(model.tensors, model.files);
  return model;
}
