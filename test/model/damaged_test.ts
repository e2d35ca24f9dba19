/**
 * Damaged files: each must end in one sentence (SurgeError, data or missing) that names the file and the thing, never in another
 * exception and never in an allocation of what the file claims.
 */
import { mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "bun:test";
import { SurgeError } from "../../src/base/errors.ts";
import { readModel } from "../../src/model/source.ts";
import {
  draftOfFolder,
  draftOfGguf,
  type FolderDraft,
  framed,
  type GgufDraft,
  ggufHeader,
  pair,
  temporaryFolder,
  text,
  u32,
  u64,
  writeFolder,
  writeGguf,
} from "../fixtures/model_files.ts";
import { GOLDEN_MODELS } from "../support/golden.ts";
import { thrownBy } from "../support/thrown.ts";

const GGUF = join(GOLDEN_MODELS, "q35-r2/model.gguf");
const FOLDER = join(GOLDEN_MODELS, "q35-r2/hf");
const SHARDED = join(GOLDEN_MODELS, "q35-sharded/hf");
const temporary = temporaryFolder();
let made = 0;
afterAll(() => rmSync(temporary, { recursive: true }));

function failure(path: string): SurgeError {
  return thrownBy(() => readModel(path));
}

function expectRefusal(path: string, says: RegExp, kind: "data" | "missing" = "data"): void {
  const { kind: found, message } = failure(path);
  expect(message).toMatch(says);
  expect(message).toContain(path);
  expect(message).not.toContain("\n");
  expect(found).toBe(kind);
}

function next(name: string): string {
  return join(temporary, `${made++}-${name}`);
}

function bytesFile(bytes: Uint8Array): string {
  const path = next("damaged.gguf");
  writeFileSync(path, bytes);
  return path;
}

function changedGguf(change: (draft: GgufDraft) => void): string {
  const draft = draftOfGguf(GGUF);
  change(draft);
  return writeGguf(next("changed.gguf"), draft);
}

function changedFolder(change: (draft: FolderDraft) => void): string {
  const draft = draftOfFolder(FOLDER);
  change(draft);
  const folder = next("folder");
  mkdirSync(folder);
  return writeFolder(folder, draft);
}

function rawFolder(header: Buffer, dataBytes = 0): string {
  const folder = changedFolder(() => undefined);
  writeFileSync(join(folder, "model.safetensors"), Buffer.concat([header, Buffer.alloc(dataBytes)]));
  return folder;
}

function tensor(draft: GgufDraft | FolderDraft, name: string) {
  return draft.tensors.find((each) => each.name === name)!;
}

function without(draft: GgufDraft | FolderDraft, pattern: RegExp): void {
  draft.tensors = draft.tensors.filter((each) => !pattern.test(each.name));
}

test("the drafts themselves are sound: what fails below fails for the change", () => {
  expect(readModel(changedGguf(() => undefined)).tensors.length).toBe(readModel(GGUF).tensors.length);
  expect(readModel(changedFolder(() => undefined)).config).toEqual(readModel(FOLDER).config);
});

describe("GGUF bytes", () => {
  const good = readFileSync(GGUF);
  const { header } = ggufHeader(draftOfGguf(GGUF));
  const head = (tensors: number | bigint, pairs: number | bigint) =>
    Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors), u64(pairs)]);
  const patched = (offset: number, bytes: number[]) => {
    const copy = Buffer.from(good);
    copy.set(bytes, offset);
    return copy;
  };

  test("truncated anywhere in the header", () => {
    for (let i = 0; i < 40; i++) {
      expectRefusal(bytesFile(header.subarray(0, Math.floor(header.length * i / 40))), /truncated|too short|claims/);
    }
  });
  test("truncated in the data", () => {
    const path = bytesFile(good);
    truncateSync(path, good.length - 64);
    expectRefusal(path, /tensor \S+ ends at byte \d+, past the end of the file/);
  });

  const cases: Array<[string, Buffer, RegExp]> = [
    ["empty", Buffer.alloc(0), /too short/],
    ["wrong magic", patched(0, [0x47, 0x47, 0x4d, 0x4c]), /does not begin with "GGUF"/],
    ["big-endian", patched(4, [0, 0, 0, 3]), /big-endian/],
    ["version 1", patched(4, [1, 0, 0, 0]), /version 1/],
    ["absurd tensor count", head(1n << 60n, 0), /claims/],
    ["absurd metadata count", head(0, 1n << 63n), /claims/],
    ["many tensors, nothing there", head(1 << 19, 0), /truncated/],
    ["absurd name", Buffer.concat([head(0, 1), u64(1n << 62n), Buffer.alloc(64)]), /name of metadata entry 0/],
    ["unknown type", Buffer.concat([head(0, 1), text("k"), u32(77), Buffer.alloc(64)]), /metadata k .*type 77/],
    [
      "unknown element type",
      Buffer.concat([head(0, 1), text("k"), u32(9), u32(77), u64(0), Buffer.alloc(9)]),
      /metadata k .*type 77/,
    ],
    [
      "absurd array",
      Buffer.concat([head(0, 1), text("k"), u32(9), u32(0), u64(1n << 40n), Buffer.alloc(64)]),
      /metadata k claims an array/,
    ],
    [
      "array of bytes as long as a big file",
      Buffer.concat([head(0, 1), text("k"), u32(9), u32(0), u64(9_000_000), Buffer.alloc(9_000_000)]),
      /metadata k claims an array/,
    ],
    [
      "nested arrays",
      Buffer.concat([
        head(0, 1),
        text("k"),
        u32(9),
        ...Array.from({ length: 50 }, () => Buffer.concat([u32(9), u64(1)])),
      ]),
      /metadata k claims an array/,
    ],
    [
      "duplicate metadata",
      Buffer.concat([head(0, 2), pair("same", 1), pair("same", 2), Buffer.alloc(32)]),
      /metadata same stands twice/,
    ],
    ["too many dimensions", Buffer.concat([head(1, 0), text("t"), u32(99), Buffer.alloc(64)]), /tensor t claims 99/],
    [
      "a name that would write into the terminal",
      Buffer.concat([head(0, 1), pair("k\n\u001b[2J", 1), Buffer.alloc(32)]),
      /the name of metadata entry 0 is empty or holds unprintable/,
    ],
    ["no model", head(0, 0), /family "?unknown/],
  ];
  test.each(cases)("%s", (_name, bytes, says) => expectRefusal(bytesFile(bytes), says));
});

describe("GGUF tensors and metadata", () => {
  const set = (key: string, value: number | string | boolean | number[]) => (draft: GgufDraft) =>
    void draft.metadata.set(key, value);
  const cases: Array<[string, (draft: GgufDraft) => void, RegExp]> = [
    ["offset past the end", (d) => (tensor(d, "output_norm.weight").offset = 1 << 30), /output_norm.weight ends at/],
    ["unaligned", (d) => (tensor(d, "output_norm.weight").offset = 7), /output_norm.weight .*not aligned/],
    ["overlap", (d) => (d.tensors[1]!.offset = 0), /tensors \S+ and \S+ overlap/],
    ["listed twice", (d) => void d.tensors.push(d.tensors[3]!), /is listed twice/],
    ["zero dimension", (d) => (tensor(d, "output_norm.weight").shape = [0]), /output_norm.weight claims the shape 0/],
    [
      "overflowing dimensions",
      (d) => void d.tensors.push({ name: "big", dtype: "F32", shape: [2 ** 31, 2 ** 31] }),
      /big claims the shape/,
    ],
    ["unknown type", (d) => (tensor(d, "blk.0.ssm_out.weight").dtype = "type 36"), /blk.0.ssm_out.weight .*type 36/],
    ["block format, odd row", (d) => (tensor(d, "blk.0.ssm_out.weight").dtype = "Q4_K"), /blk.0.ssm_out.weight .*256/],
    ["missing tensor", (d) => without(d, /^blk\.1\.ffn_down_exps/), /lacks tensor blk.1.ffn_down_exps.weight;/],
    ["all experts missing", (d) => without(d, /_exps/), /lacks tensor .* and \d+ more/],
    ["wrong shape", (d) => (tensor(d, "output_norm.weight").shape = [65]), /output_norm.weight .* 65 .*demands 64/],
    ["wrong expert shape", (d) => tensor(d, "blk.0.ffn_up_exps.weight").shape.reverse(), /demands 8 x 16 x 64/],
    ["alignment 0", set("general.alignment", 0), /alignment of 0/],
    ["alignment text", set("general.alignment", "wide"), /alignment/],
    ["other family", set("general.architecture", "llama"), /family "llama", which is not supported/],
    ["missing number", (d) => void d.metadata.delete("qwen35moe.embedding_length"), /embedding_length is missing/],
    ["number as text", set("qwen35moe.embedding_length", "64"), /embedding_length is not a number/],
    ["absurd layers", set("qwen35moe.block_count", 2 ** 31 - 1), /block_count is 2147483647/],
    ["absurd experts", set("qwen35moe.expert_count", 2 ** 31 - 1), /expert_count is/],
    ["more used than there", set("qwen35moe.expert_used_count", 9), /9 experts used of 8/],
    ["prediction layers only", set("qwen35moe.nextn_predict_layers", 4), /prediction layers only/],
    ["kv heads of another model", set("qwen35moe.attention.head_count_kv", [0, 0, 0, 3]), /attn_k.weight/],
    ["odd rotary width", set("qwen35moe.rope.dimension_count", 7), /7 rotary dimensions/],
    ["unknown rope", set("qwen35moe.rope.scaling.type", "longrope"), /"longrope" is not supported/],
    ["split of others", set("split.count", 3), /one of 3 files/],
  ];
  test.each(cases)("%s", (_name, change, says) => expectRefusal(changedGguf(change), says));
});

describe("shards", () => {
  const shard = (stem: string, i: number) => join(temporary, `${stem}-0000${i}-of-00002.gguf`);
  const draft = draftOfGguf(GGUF);
  const part = (from: number, to: number, metadata = draft.metadata) => ({
    metadata,
    tensors: draft.tensors.slice(from, to),
  });

  test("a split model is one model, whichever part is named", () => {
    writeGguf(shard("good", 1), part(0, 20));
    writeGguf(shard("good", 2), part(20, 999, new Map([["split.count", 2], ["split.no", 1]])));
    for (const i of [1, 2]) {
      const manifest = readModel(shard("good", i));
      expect(manifest.files.map((file) => file.path)).toEqual([shard("good", 1), shard("good", 2)]);
      expect(manifest.tensors.length).toBe(readModel(GGUF).tensors.length);
    }
  });
  test("a missing part is named", () => {
    writeGguf(shard("half", 1), part(0, 20));
    expect(failure(shard("half", 1)).message).toContain(shard("half", 2));
    expect(failure(shard("half", 1)).kind).toBe("missing");
  });
  test("parts that disagree with their names", () => {
    writeGguf(shard("count", 1), part(0, 20));
    writeGguf(shard("count", 2), part(20, 999, new Map([["split.count", 3]])));
    expect(failure(shard("count", 1)).message).toMatch(/count-00002-of-00002.gguf says it is one of 3 files/);
    writeGguf(shard("order", 1), part(0, 20));
    writeGguf(shard("order", 2), part(20, 999, new Map([["split.no", 0]])));
    expect(failure(shard("order", 1)).message).toMatch(/order-00002-of-00002.gguf says it is part 1/);
  });
  test("a tensor in two parts", () => {
    writeGguf(shard("twice", 1), part(0, 20));
    writeGguf(shard("twice", 2), part(19, 999));
    expect(failure(shard("twice", 1)).message).toMatch(/twice-00002-of-00002.gguf: tensor \S+ is listed twice/);
  });
});

describe("safetensors bytes", () => {
  const entry = `{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`;
  const cases: Array<[string, Buffer, RegExp]> = [
    ["empty", Buffer.alloc(0), /too short/],
    ["header longer than the file", Buffer.concat([u64(500), Buffer.from("{}")]), /claims a header of 500 bytes/],
    ["absurd header length", Buffer.concat([u64((1n << 64n) - 1n), Buffer.alloc(9)]), /claims a header of/],
    ["broken JSON", framed(`{"a":`), /not a JSON object/],
    ["a list", framed("[]"), /not a JSON object/],
    ["deep nesting", framed("[".repeat(200_000)), /not a JSON object/],
    ["deep nesting in an entry", framed(`{"a":${"[".repeat(5000)}${"]".repeat(5000)}}`), /entry of tensor a/],
    ["duplicate keys", framed(`{"a":${entry},"b":{"dtype":"F32"},"\\u0061":${entry}}`), /tensor "a" is listed twice/],
    ["no dtype", framed(`{"a":{"shape":[1],"data_offsets":[0,4]}}`), /entry of tensor a is malformed/],
    ["negative shape", framed(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`), /tensor a is malformed/],
    ["overflow", framed(`{"a":{"dtype":"F32","shape":[9e15,9e15],"data_offsets":[0,4]}}`), /tensor a of shape/],
    ["shape against offsets", framed(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`), /does not fit/],
    ["backwards", framed(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`), /does not fit/],
    ["past the end", framed(`{"a":${entry}}`), /tensor a ends at byte \d+, past the end/],
    [
      "overlap",
      Buffer.concat([framed(`{"a":${entry},"b":${entry.replace("[0,4]", "[0,4]")}}`), Buffer.alloc(4)]),
      /tensors a and b overlap/,
    ],
    ["a prototype for a name", framed(`{"__proto__":5}`), /entry of tensor __proto__ is malformed/],
    ["a name of two lines", framed(`{"a\\nb":${entry}}`), /the name of a tensor is empty or holds unprintable/],
    ["nothing in it", framed("{}"), /lacks tensor model.embed_tokens.weight/],
  ];
  test.each(cases)("%s", (_name, bytes, says) => expectRefusal(rawFolder(bytes), says));
});

describe("safetensors tensors and config", () => {
  const prefix = "model.language_model.";
  const name = (suffix: string) => {
    const draft = draftOfFolder(FOLDER);
    return draft.tensors.find((each) => each.name.endsWith(suffix))?.name ?? prefix + suffix;
  };
  const inner = (draft: FolderDraft) => (draft.config["text_config"] ?? draft.config) as Record<string, unknown>;
  const cases: Array<[string, (draft: FolderDraft) => void, RegExp]> = [
    ["missing tensor", (d) => without(d, /layers\.1\..*conv1d/), /lacks tensor \S+conv1d.weight/],
    ["missing output", (d) => without(d, /lm_head/), /lacks tensor lm_head.weight/],
    ["wrong shape", (d) => (tensor(d, name("layers.0.input_layernorm.weight")).shape = [3]), /demands 64/],
    [
      "an integer type",
      (d) => (tensor(d, name("lm_head.weight")).dtype = "U32"),
      /lm_head.weight .*U32.*not supported/,
    ],
    [
      "FP8 without scales",
      (d) => (tensor(d, name("layers.0.linear_attn.out_proj.weight")).dtype = "F8_E4M3"),
      /out_proj.weight is FP8 and its \S+_scale_inv is missing/,
    ],
    ["missing number", (d) => void delete inner(d)["hidden_size"], /config.json: hidden_size is missing/],
    ["number as text", (d) => (inner(d)["hidden_size"] = "64"), /hidden_size is not a number/],
    ["negative number", (d) => (inner(d)["num_experts"] = -8), /num_experts is -8/],
    ["fraction", (d) => (inner(d)["num_experts"] = 7.5), /num_experts is 7.5/],
    ["absurd layers", (d) => (inner(d)["num_hidden_layers"] = 4e9), /num_hidden_layers is 4000000000/],
    [
      "many layers and experts that are not there",
      (d) => {
        Object.assign(inner(d), { num_hidden_layers: 4096, num_experts: 65536, layer_types: undefined });
      },
      /demands|lacks tensor/,
    ],
    ["layer types of other length", (d) => (inner(d)["layer_types"] = ["full_attention"]), /layer_types names 1/],
    [
      "layer type of no kind",
      (d) => (inner(d)["layer_types"] = [{ toString: 1 }, 1, 1, 1]),
      /layer type \{"toString":1\} is not supported/,
    ],
    ["model type of no kind", (d) => (d.config["model_type"] = { toString: 1 }), /family \{"toString":1\}/],
    ["biases", (d) => (inner(d)["attention_bias"] = true), /attention_bias is true, which is not supported/],
    ["dense layers", (d) => (inner(d)["mlp_only_layers"] = [0]), /mlp_only_layers is \[0\]/],
    ["unknown rope", (d) => (inner(d)["rope_parameters"] = { rope_type: "llama3" }), /"llama3" is not supported/],
    ["yarn without a factor", (d) => (inner(d)["rope_parameters"] = { rope_type: "yarn" }), /factor is missing/],
    ["text config of no kind", (d) => void (d.config = { model_type: "qwen3_5_moe", text_config: 5 }), /is missing/],
  ];
  test.each(cases)("%s", (_name, change, says) => expectRefusal(changedFolder(change), says));

  test.each([["{", /config.json is not valid JSON/], ["[1]", /config.json is not a JSON object/]])(
    "config.json %s",
    (json, says) => {
      const folder = changedFolder(() => undefined);
      writeFileSync(join(folder, "config.json"), json);
      expectRefusal(folder, says);
    },
  );
  test("no config.json, no weights, nothing at all", () => {
    const bare = changedFolder(() => undefined);
    rmSync(join(bare, "model.safetensors"));
    expectRefusal(bare, /holds no .safetensors file/, "missing");
    rmSync(join(bare, "config.json"));
    expectRefusal(bare, /holds no config.json/, "missing");
    expectRefusal(join(bare, "nowhere"), /is not there/, "missing");
  });
});

describe("safetensors shards", () => {
  const shards = (index: boolean): string => {
    const folder = next("shards");
    mkdirSync(folder);
    const names = ["config.json", ...[1, 2, 3].map((i) => `model-0000${i}-of-00003.safetensors`)];
    if (index) names.push("model.safetensors.index.json");
    for (const name of names) writeFileSync(join(folder, name), readFileSync(join(SHARDED, name)));
    return folder;
  };
  const index = "model.safetensors.index.json";

  test("with and without an index the same model", () => {
    const names = (folder: string) =>
      readModel(folder).tensors.map((each) => `${each.name} ${each.file} ${each.offset}`);
    expect(names(shards(true))).toEqual(names(shards(false)));
  });
  test.each([true, false])("a missing shard is named (index: %p)", (withIndex) => {
    for (const i of [1, 2, 3]) {
      const folder = shards(withIndex);
      rmSync(join(folder, `model-0000${i}-of-00003.safetensors`));
      expectRefusal(folder, new RegExp(`model-0000${i}-of-00003.safetensors is missing`), "missing");
    }
  });
  test("an index that lies", () => {
    const lies: Array<[string, RegExp]> = [
      ["{", /not valid JSON/],
      ["{}", /no usable weight_map/],
      [`{"weight_map":{"a":"../config.json"}}`, /not a plain file name/],
      [`{"weight_map":{"ghost":"model-00001-of-00003.safetensors"}}`, /is missing|lacks tensor "ghost"/],
      [`{"weight_map":{"ghost":5}}`, /no usable weight_map/],
    ];
    for (const [json, says] of lies) {
      const folder = shards(true);
      writeFileSync(join(folder, index), json);
      expect(failure(folder).message).toMatch(says);
    }
  });
});
