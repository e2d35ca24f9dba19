/**
 * Writes golden models as what C is given to open them, so that a processor on which bun does not run can compute them (golden_peer.c).
 * Per model: its name, the structs with what they point to, the prompt, the reference's logits; each as a length of 8 bytes and the bytes.
 *
 *   bun test/support/golden_tape.ts FILE NAME...      (names as goldenModels() has them)
 */
import { type Pointer, toArrayBuffer } from "bun:ffi";
import { writeFileSync } from "node:fs";
import { measure } from "../../ffi/engine.ts";
import * as layout from "../../ffi/layout.gen.ts";
import type { Library } from "../../ffi/load.ts";
import { readModel } from "../../src/model/source.ts";
import { type GoldenModel, goldenModels, readFloats } from "./golden.ts";
import { testPlan } from "./native.ts";

function bytesAt(address: number, count: number): Buffer {
  return count === 0 ? Buffer.alloc(0) : Buffer.from(toArrayBuffer(address as Pointer, 0, count).slice(0));
}

/** What the engine's description points to, in the order in which the peer reads it. */
function recordsOf(address: number): Buffer[] {
  const desc = bytesAt(address, layout.surge_engine_desc.size);
  const { file_count, tensor_count, scale_count, model, plan, files, tensors, scales } =
    layout.surge_engine_desc.fields;
  const count = ({ offset }: { offset: number }) => desc.readUInt32LE(offset);
  const array = (field: { offset: number }, bytes: number) =>
    bytesAt(Number(desc.readBigUInt64LE(field.offset)), bytes);
  const config = array(model, layout.surge_model_desc.size);
  const kinds = Number(config.readBigUInt64LE(layout.surge_model_desc.fields.layer_kinds.offset));
  const table = array(files, count(file_count) * layout.surge_file_desc.size);
  const { path, path_bytes } = layout.surge_file_desc.fields;
  const paths = Array.from({ length: count(file_count) }, (_, i) => {
    const at = i * layout.surge_file_desc.size;
    return bytesAt(Number(table.readBigUInt64LE(at + path.offset)), table.readUInt32LE(at + path_bytes.offset));
  });
  return [
    desc,
    config,
    bytesAt(kinds, config.readUInt32LE(layout.surge_model_desc.fields.layer_kind_count.offset)),
    array(plan, layout.surge_plan_desc.size),
    table,
    array(tensors, count(tensor_count) * layout.surge_tensor_desc.size),
    array(scales, count(scale_count) * layout.surge_scale_desc.size),
    ...paths,
  ];
}

function tapeOf({ name, path, folder, cases }: GoldenModel): Buffer[] {
  const { ids, logits } = cases.all_positions;
  const records: Buffer[] = [Buffer.from(`${name}\0`)];
  /* Stands in for the library: it looks at what it is given, and has taken nothing. */
  const listener = { surge_engine_measure: (desc: number) => (records.push(...recordsOf(desc)), 0) };
  measure(listener as unknown as Library, readModel(path), testPlan());
  return [...records, Buffer.from(Uint32Array.from(ids).buffer), Buffer.from(readFloats(folder, logits).buffer)];
}

const [file, ...names] = process.argv.slice(2);
const models = names.map((name) => goldenModels().find((model) => model.name === name)!);
const pieces = models.flatMap(tapeOf).flatMap((record) => {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(record.length));
  return [length, record];
});
writeFileSync(file!, Buffer.concat(pieces));
