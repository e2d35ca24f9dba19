/**
 * Whole Hugging Face folders for tests: a good one taken apart with its weights, changed as plain data, written again as one file.
 * Tokenizer files come along unchanged.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSafetensors } from "../../src/model/safetensors.ts";
import { framed, safetensorsHeader } from "../fixtures/model_files.ts";
import type { FilledTensor } from "./gguf_writer.ts";

const COMPANIONS = [
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
];

/** All tensors of a folder, shards or not; buffers are copies that may be changed. */
export function takeSafetensors(folder: string): FilledTensor[] {
  const { files, tensors } = readSafetensors(folder);
  const contents = files.map((file) => readFileSync(file.path));
  return [...tensors.values()].map(({ name, dtype, shape, file, offset, bytes }) => ({
    name,
    dtype,
    shape,
    data: Buffer.from(contents[file]!.subarray(offset, offset + bytes!)),
  }));
}

/** Writes `to` with the companions of `from`; `padding` spaces lengthen the header, which moves every weight. Returns `to`. */
export function putSafetensors(
  to: string,
  from: string,
  content: { tensors: FilledTensor[]; padding?: number },
): string {
  mkdirSync(to, { recursive: true });
  for (const name of COMPANIONS) if (existsSync(join(from, name))) copyFileSync(join(from, name), join(to, name));
  const json = safetensorsHeader(content.tensors).header.subarray(8).toString("utf8") +
    " ".repeat(content.padding ?? 0);
  writeFileSync(
    join(to, "model.safetensors"),
    Buffer.concat([framed(json), ...content.tensors.map(({ data }) => data)]),
  );
  return to;
}
