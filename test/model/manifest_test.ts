/**
 * One model in many layouts must be one model to the engine: the golden weights are written again as other programs write them, and the
 * logits must be the same to the last bit. A range, a stride, a head order or a transform that is off by anything shows here.
 */
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { afterAll, describe, expect, test } from "bun:test";
import { readModel } from "../../src/model/source.ts";
import { temporaryFolder } from "../fixtures/model_files.ts";
import { type FilledGguf, type FilledTensor, putGguf, putSplitGguf, takeGguf } from "../support/gguf_writer.ts";
import { difference, GOLDEN_MODELS } from "../support/golden.ts";
import { feed, openNative } from "../support/native.ts";
import { putSafetensors, takeSafetensors } from "../support/safetensors_writer.ts";

const GGUF = join(GOLDEN_MODELS, "q35-r2/model.gguf");
const FOLDER = join(GOLDEN_MODELS, "q35-r2/hf");
const IDS = [5, 250, 17, 17, 3, 128, 64, 99, 200, 1];
const temporary = temporaryFolder();
let made = 0;
afterAll(() => rmSync(temporary, { recursive: true }));

function logitsOf(path: string): Float32Array {
  const engine = openNative(path, { context: 64, parallel: 1 });
  const logits = feed(engine, IDS);
  engine.close();
  return logits;
}

function next(name: string): string {
  return join(temporary, `${made++}-${name}`);
}

function gguf(change: (model: FilledGguf) => void, options: { version?: 2 | 3 } = {}): string {
  const model = takeGguf(GGUF);
  change(model);
  return putGguf(next("model.gguf"), model, options);
}

function folder(change: (tensors: FilledTensor[]) => FilledTensor[], padding = 0): string {
  return putSafetensors(next("hf"), FOLDER, { tensors: change(takeSafetensors(FOLDER)), padding });
}

/** Rows `order[i]` of equally long rows. */
function reorder(data: Buffer, order: number[]): Buffer {
  const bytes = data.length / order.length;
  return Buffer.concat(order.map((from) => data.subarray(from * bytes, (from + 1) * bytes)));
}

describe("GGUF layouts", () => {
  const expected = logitsOf(GGUF);

  const layouts: Array<[string, string]> = [
    ["written again", gguf(() => undefined)],
    ["version 2", gguf(() => undefined, { version: 2 })],
    ["aligned to 256", gguf(({ metadata }) => void metadata.set("general.alignment", 256))],
    ["aligned to 8", gguf(({ metadata }) => void metadata.set("general.alignment", 8))],
    ["tensors in reverse order", gguf((model) => void model.tensors.reverse())],
    [
      "an unknown tensor of an unknown type between",
      gguf((model) => {
        model.tensors.splice(7, 0, { name: "odd", dtype: "type 99", shape: [64], data: Buffer.alloc(64, 0xff) });
      }),
    ],
  ];
  test.each(layouts)("%s: the same logits", (_name, path) => expect(logitsOf(path)).toEqual(expected));

  test.each([2, 3])("split into %d parts: the same logits, whichever part is named", (parts) => {
    const paths = putSplitGguf(next("split"), takeGguf(GGUF), parts);
    const manifest = readModel(paths[0]!);
    expect(manifest.files.map((file) => file.path)).toEqual(paths);
    expect(new Set(manifest.tensors.map((tensor) => tensor.file)).size).toBe(parts);
    for (const path of paths) expect(logitsOf(path)).toEqual(expected);
  });

  test("a manifest saved as JSON, beside its files or elsewhere: the same logits", () => {
    const saved = next("model.json");
    writeFileSync(saved, JSON.stringify(readModel(GGUF)));
    expect(logitsOf(saved)).toEqual(expected);
    const home = next("home");
    mkdirSync(home);
    copyFileSync(GGUF, join(home, "weights.gguf"));
    const manifest = readModel(join(home, "weights.gguf"));
    const files = manifest.files.map((file) => ({ ...file, path: basename(file.path) }));
    writeFileSync(join(home, "model.json"), JSON.stringify({ ...manifest, files }));
    expect(logitsOf(join(home, "model.json"))).toEqual(expected);
  });

  test("a BF16 model with tied embeddings, split: the output is read from the part with the embedding", () => {
    const tied = join(GOLDEN_MODELS, "q35-tied/model.gguf");
    const [first] = putSplitGguf(next("tied"), takeGguf(tied), 3);
    expect(logitsOf(first!)).toEqual(logitsOf(tied));
  });
});

/** As Ollama's library writes this model (reference: its converter's compatibility layer). */
function asOllama({ metadata, tensors }: FilledGguf): void {
  metadata.set("qwen35moe.attention.head_count_kv", [0, 0, 0, 2]);
  metadata.delete("qwen35moe.full_attention_interval");
  metadata.set("qwen35moe.rope.dimension_sections", [2, 1, 1]);
  metadata.set("qwen35moe.rope.mrope_interleaved", true);
  metadata.set("qwen35moe.image_token_id", 5);
  metadata.set("qwen35moe.norm_top_k_prob", true);
  metadata.set("qwen35moe.feed_forward_length", 0);
  for (const tensor of tensors) tensor.name = tensor.name.replace(/ssm_dt\.bias$/, "ssm_dt");
  for (const name of ["v.patch_embd.weight", "v.blk.0.attn_qkv.weight", "mm.0.weight", "mtp.fc.weight"]) {
    tensors.unshift({ name, dtype: "F32", shape: [4, 4], data: Buffer.alloc(64, 0xff) });
  }
}

describe("Ollama's layout", () => {
  test("the same logits; what is not text is stepped over and counted", () => {
    const path = gguf(asOllama);
    expect(readModel(path).ignored).toEqual({ vision: 3, mtp: 1, unknown: 0 });
    expect(logitsOf(path)).toEqual(logitsOf(GGUF));
  });

  /* Two key heads of 16, four value heads of 16: tiled head j is grouped head (j mod 2) * 2 + j div 2. */
  const grouped = [0, 2, 1, 3];
  const heads = (size: number) => grouped.flatMap((head) => Array.from({ length: size }, (_, i) => head * size + i));
  const behindKeys = [...Array(64).keys(), ...heads(16).map((row) => 64 + row)];
  const untile = ({ tensors }: FilledGguf): void => {
    for (const tensor of tensors) {
      const part = /^blk\.\d+\.(.*)$/.exec(tensor.name)?.[1] ?? "";
      if (/^(attn_qkv|ssm_conv1d)\.weight$/.test(part)) tensor.data = reorder(tensor.data, behindKeys);
      if (part === "attn_gate.weight") tensor.data = reorder(tensor.data, heads(16));
      if (/^(ssm_(alpha|beta)\.weight|ssm_a|ssm_dt(\.bias)?)$/.test(part)) tensor.data = reorder(tensor.data, grouped);
      if (part === "ssm_out.weight") {
        const rows = Array.from({ length: 64 }, (_, row) => tensor.data.subarray(row * 256, (row + 1) * 256));
        tensor.data = Buffer.concat(rows.map((row) => reorder(row, heads(16))));
      }
    }
  };

  test("v_head_reordered = false is obeyed: heads put back in grouped order give the same logits, tiled ones do not", () => {
    const saysGrouped = ({ metadata }: FilledGguf) => void metadata.set("qwen35moe.ssm.v_head_reordered", false);
    const expected = logitsOf(GGUF);
    const put = gguf((model) => {
      asOllama(model);
      untile(model);
      saysGrouped(model);
    });
    expect(readModel(put).config.gdnHeadOrder).toBe("grouped");
    /* Only the order of sums in ssm_out differs. */
    expect(difference(logitsOf(put), expected).rms).toBeLessThan(1e-4);
    expect(difference(logitsOf(gguf(untile)), expected).rms).toBeGreaterThan(0.1);
    expect(difference(logitsOf(gguf(saysGrouped)), expected).rms).toBeGreaterThan(0.1);
  });
});

/** Every tensor of these types as another type; `convert` gets values. */
function stored(tensors: FilledTensor[], dtype: string, convert: (values: Float32Array) => Uint8Array): FilledTensor[] {
  return tensors.map((tensor) => {
    const bytes = tensor.data;
    const values = tensor.dtype === "F32"
      ? Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4))
      : new Float32Array(
        Uint32Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readUInt16LE(i * 2) << 16).buffer,
      );
    return { ...tensor, dtype, data: Buffer.from(convert(values)) };
  });
}

const bytesOf = (values: { buffer: ArrayBufferLike }) => new Uint8Array(values.buffer as ArrayBuffer);

describe("Hugging Face layouts", () => {
  const expected = logitsOf(FOLDER);
  const prefixed = (prefix: string) => (tensors: FilledTensor[]) =>
    tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace(/^model\.(language_model\.)?/, prefix) }));

  test.each(["model.", "model.language_model.", "language_model.model."])(
    "prefix %s: the same logits",
    (prefix) => expect(logitsOf(folder(prefixed(prefix)))).toEqual(expected),
  );
  test("lm_head under language_model.: the same logits", () => {
    const rename = (tensors: FilledTensor[]) =>
      tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace(/^lm_head/, "language_model.lm_head") }));
    expect(logitsOf(folder((tensors) => rename(prefixed("language_model.model.")(tensors))))).toEqual(expected);
  });
  test.each([1, 2, 3])("a header that leaves weights %d bytes off their alignment: the same logits", (shift) => {
    const even = folder((tensors) => tensors);
    const offset = readModel(even).tensors[0]!.offset;
    const path = folder((tensors) => tensors, 4 - offset % 4 + shift);
    expect(readModel(path).tensors[0]!.offset % 4).toBe(shift);
    expect(logitsOf(path)).toEqual(expected);
  });
  test("one tensor per expert in three shards, or fused: the same logits", () => {
    const sharded = join(GOLDEN_MODELS, "q35-sharded/hf");
    expect(readModel(sharded).ignored.vision).toBe(5);
    expect(logitsOf(sharded)).toEqual(expected);
  });
  test("F16: what its values give in F32", () => {
    const half = folder((tensors) => stored(tensors, "F16", (values) => bytesOf(new Float16Array(values))));
    const full = folder((tensors) =>
      stored(tensors, "F32", (values) => bytesOf(new Float32Array(new Float16Array(values))))
    );
    expect(new Set(readModel(half).tensors.map((tensor) => tensor.dtype))).toEqual(new Set(["F16"]));
    expect(logitsOf(half)).toEqual(logitsOf(full));
  });
  test("BF16 widened to F32: the same logits", () => {
    expect(logitsOf(folder((tensors) => stored(tensors, "F32", bytesOf)))).toEqual(expected);
  });
  test("a manifest of FP8 with block scales, saved as JSON: the same logits", () => {
    const fp8 = join(GOLDEN_MODELS, "q35-fp8/hf");
    const saved = next("fp8.json");
    writeFileSync(saved, JSON.stringify(readModel(fp8)));
    expect(logitsOf(saved)).toEqual(logitsOf(fp8));
  });
});
