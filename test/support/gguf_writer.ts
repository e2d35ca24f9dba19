/**
 * Whole GGUF files for tests: a good file taken apart with its weights and text tables, changed as plain data, and written again in
 * another layout (version, alignment, order, parts). Headers come from test/fixtures/model_files.ts; this file adds the weights.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { type GgufMetadata, readGguf, readGgufTokenizer } from "../../src/model/gguf.ts";
import { type DraftTensor, ggufHeader } from "../fixtures/model_files.ts";

export interface FilledTensor extends DraftTensor {
  data: Buffer;
}

export interface FilledGguf {
  metadata: GgufMetadata;
  tensors: FilledTensor[];
}

/** Everything in a GGUF file of one part; buffers are copies that may be changed. */
export function takeGguf(path: string): FilledGguf {
  const bytes = readFileSync(path);
  const tensors = [...readGguf(path).tensors.values()].map(({ name, dtype, shape, offset, bytes: length }) => ({
    name,
    dtype,
    shape,
    data: Buffer.from(bytes.subarray(offset, offset + length!)),
  }));
  return { metadata: readGgufTokenizer(path), tensors };
}

/** Writes the file and returns its path. Data is aligned to general.alignment, 32 where the metadata does not say. */
export function putGguf(path: string, model: FilledGguf, options: { version?: 2 | 3 } = {}): string {
  const alignment = Number(model.metadata.get("general.alignment") ?? 32);
  const padded = (bytes: number) => Math.ceil(bytes / alignment) * alignment;
  let end = 0;
  const tensors = model.tensors.map((tensor) => {
    const offset = padded(end);
    end = offset + tensor.data.length;
    return { ...tensor, offset };
  });
  const { header } = ggufHeader({ metadata: model.metadata, tensors });
  header.writeUInt32LE(options.version ?? 3, 4);
  const dataStart = padded(header.length);
  const file = Buffer.alloc(dataStart + end);
  header.copy(file);
  for (const { offset, data } of tensors) data.copy(file, dataStart + offset);
  writeFileSync(path, file);
  return path;
}

/** Writes `stem`-0000i-of-0000n.gguf as gguf-split does: the first part has all metadata, the others only say which they are. */
export function putSplitGguf(stem: string, model: FilledGguf, parts: number): string[] {
  const share = Math.ceil(model.tensors.length / parts);
  const five = (number: number) => String(number).padStart(5, "0");
  return Array.from({ length: parts }, (_, i) => {
    const split = [["split.no", i], ["split.count", parts], ["split.tensors.count", model.tensors.length]] as const;
    const metadata: GgufMetadata = new Map([...(i === 0 ? model.metadata : []), ...split]);
    const tensors = model.tensors.slice(i * share, (i + 1) * share);
    return putGguf(`${stem}-${five(i + 1)}-of-${five(parts)}.gguf`, { metadata, tensors });
  });
}
