/**
 * Damage that only shows with weights, text or engine: whole good models, changed in one place, opened as a chat would open them. Each must
 * end in one sentence (SurgeError, data or missing) that names the file and the thing. Damaged headers alone: damaged_test.ts.
 */
import { copyFileSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "bun:test";
import { loadModelText } from "../../src/engine/conversation.ts";
import { SurgeError } from "../../src/base/errors.ts";
import type { Manifest, ManifestTensor } from "../../src/model/manifest.ts";
import { readModel } from "../../src/model/source.ts";
import { NativeEngine } from "../../ffi/engine.ts";
import { temporaryFolder } from "../fixtures/model_files.ts";
import { type FilledGguf, type FilledTensor, putGguf, putSplitGguf, takeGguf } from "../support/gguf_writer.ts";
import { GOLDEN_MODELS } from "../support/golden.ts";
import { feed, openNative, testLibrary, testPlan } from "../support/native.ts";
import { putSafetensors, takeSafetensors } from "../support/safetensors_writer.ts";
import { thrownBy } from "../support/thrown.ts";

const GGUF = join(GOLDEN_MODELS, "q35-r2/model.gguf");
const FOLDER = join(GOLDEN_MODELS, "q35-r2/hf");
const FP8 = join(GOLDEN_MODELS, "q35-fp8/hf");
const MIXED = join(GOLDEN_MODELS, "q35-k256");
const IDS = [1, 2, 3];
const temporary = temporaryFolder();
let made = 0;
afterAll(() => rmSync(temporary, { recursive: true }));

function next(name: string): string {
  return join(temporary, `${made++}-${name}`);
}

/** Opens, reads three tokens, closes: the shortest chat. */
function use(path: string): void {
  const engine = openNative(path, { context: 64, parallel: 1 });
  try {
    feed(engine, IDS);
  } finally {
    engine.close();
  }
}

function expectRefusal(action: () => unknown, names: string, says: RegExp): SurgeError {
  const error = thrownBy(action);
  expect(error.message).toContain(names);
  expect(error.message).toMatch(says);
  expect(error.message).toMatch(/^[^\p{Cc}]*\.$/u);
  expect(["data", "missing"]).toContain(error.kind);
  return error;
}

describe("truncated anywhere", () => {
  const cut = (from: string, name: string, at: number): string => {
    const path = next(name);
    copyFileSync(from, path);
    truncateSync(path, at);
    return path;
  };
  const places = (bytes: number, count: number) =>
    Array.from({ length: count }, (_, i) => Math.floor(bytes * i / count));

  test("a GGUF file, at 60 places of header and data", () => {
    for (const at of places(readFileSync(GGUF).length, 60)) {
      const path = cut(GGUF, "cut.gguf", at);
      expectRefusal(() => readModel(path), path, /truncated|too short|claims/);
      rmSync(path);
    }
  });
  test("the weights of a folder, at 60 places", () => {
    const folder = putSafetensors(next("cut"), FOLDER, { tensors: takeSafetensors(FOLDER) });
    const weights = join(folder, "model.safetensors");
    for (const at of places(readFileSync(weights).length, 60).reverse()) {
      truncateSync(weights, at);
      expectRefusal(() => readModel(folder), weights, /truncated|too short/);
    }
  });
  test.each(["config.json", "generation_config.json"])("%s of a folder, at every 50th byte", (name) => {
    const folder = putSafetensors(next("cut"), FOLDER, { tensors: takeSafetensors(FOLDER) });
    const path = join(folder, name);
    const end = readFileSync(path, "utf8").trimEnd().length;
    for (let at = end - 1; at >= 0; at -= 50) {
      truncateSync(path, at);
      expectRefusal(() => readModel(folder), path, /is not valid JSON/);
    }
  });
  test("a manifest, at 40 places", () => {
    const json = JSON.stringify(readModel(GGUF));
    const path = next("cut.json");
    for (const at of places(json.length, 40)) {
      writeFileSync(path, json.slice(0, at));
      expectRefusal(() => readModel(path), path, /is not valid JSON/);
    }
  });
});

describe("weights that are not numbers", () => {
  const damaged = (from: string, name: string, damage: (tensor: FilledTensor) => void): string => {
    const model = takeGguf(from);
    damage(model.tensors.find((tensor) => tensor.name === name)!);
    return putGguf(next("nan.gguf"), model);
  };
  const notFinite = (name: string) => new RegExp(`tensor ${name} holds a value that is not finite`);

  const vectors = [
    "output_norm.weight",
    "blk.0.ssm_a",
    "blk.1.ssm_dt.bias",
    "blk.0.ssm_conv1d.weight",
    "blk.3.attn_q_norm.weight",
  ];
  test.each(vectors)("NaN in the vector %s: refused when the model is opened", (name) => {
    const path = damaged(GGUF, name, ({ data }) => void data.writeFloatLE(NaN, data.length - 4));
    expectRefusal(() => openNative(path), path, notFinite(name));
  });

  const matrices = [
    "blk.0.attn_qkv.weight",
    "blk.0.ssm_out.weight",
    "blk.3.attn_k.weight",
    "blk.2.ffn_gate_inp.weight",
    "blk.1.ffn_up_shexp.weight",
    "output.weight",
  ];
  test.each(matrices)("NaN in the matrix %s: found by the first answer", (name) => {
    const path = damaged(GGUF, name, ({ data }) => void data.writeFloatLE(NaN, 0));
    expectRefusal(() => use(path), path, notFinite(name));
  });

  /* Offset of the block's half-precision scale: a whole block of NaN follows from it. */
  const blocks: Array<[string, string, string, number]> = [
    ["Q4_K", "q4_k-q6_k", "blk.0.ffn_gate_shexp.weight", 0],
    ["Q6_K", "q4_k-q6_k", "output.weight", 208],
    ["Q5_K", "q5_k-q8_0", "blk.0.ffn_gate_exps.weight", 0],
    ["Q8_0", "q5_k-q8_0", "blk.1.attn_k.weight", 0],
    ["IQ4_XS", "iq4_xs-iq4_nl-q4_0", "blk.0.ffn_gate_exps.weight", 0],
    ["IQ4_NL", "iq4_xs-iq4_nl-q4_0", "blk.1.ffn_down_exps.weight", 0],
    ["Q4_0", "iq4_xs-iq4_nl-q4_0", "blk.1.attn_q.weight", 0],
    ["F16", "iq4_xs-iq4_nl-q4_0", "blk.0.ssm_beta.weight", 0],
  ];
  test.each(blocks)("NaN as the scale of a %s block (%s, %s)", (dtype, stem, name, offset) => {
    const path = damaged(join(MIXED, `${stem}.gguf`), name, (tensor) => {
      expect(tensor.dtype).toBe(dtype);
      tensor.data.writeUInt16LE(0x7e00, offset);
    });
    expectRefusal(() => use(path), path, notFinite(name));
  });

  const fp8 = (suffix: string, damage: (data: Buffer) => void): string => {
    const tensors = takeSafetensors(FP8);
    damage(tensors.find(({ name }) => name.endsWith(suffix))!.data);
    return putSafetensors(next("fp8"), FP8, { tensors });
  };
  test.each([
    ["a NaN code", "layers.0.linear_attn.out_proj.weight", (data: Buffer) => void (data[0] = 0x7f)],
    [
      "a NaN scale",
      "layers.0.linear_attn.out_proj.weight_scale_inv",
      (data: Buffer) => void data.writeUInt16LE(0x7fc0),
    ],
    [
      "an infinite scale",
      "layers.0.linear_attn.out_proj.weight_scale_inv",
      (data: Buffer) => void data.writeUInt16LE(0x7f80),
    ],
  ])("FP8: %s", (_name, suffix, damage) => {
    const folder = fp8(suffix, damage);
    expectRefusal(
      () => use(folder),
      join(folder, "model.safetensors"),
      /out_proj.weight holds a value that is not finite/,
    );
  });

  test("NaN in the embedding of one token: other conversations go on, their logits untouched", () => {
    const path = damaged(GGUF, "token_embd.weight", ({ data }) => void data.writeFloatLE(NaN, 200 * 64 * 4));
    const [good, engine] = [openNative(GGUF), openNative(path)];
    expectRefusal(() => feed(engine, [1, 200, 3]), path, notFinite("token_embd.weight"));
    expect(feed(engine, IDS)).toEqual(feed(good, IDS));
    good.close();
    engine.close();
  });
});

describe("manifests that lie", () => {
  const find = (manifest: Manifest, role: string): ManifestTensor =>
    manifest.tensors.find((each) => each.role === role)!;
  const set = (role: string, values: Partial<ManifestTensor>) => (manifest: Manifest) =>
    void Object.assign(find(manifest, role), values);
  const drop = (role: string) => (manifest: Manifest) =>
    void (manifest.tensors = manifest.tensors.filter((tensor) => tensor !== find(manifest, role)));
  const scale = (values: object) =>
    set("router", {
      scale: {
        kind: "block_128",
        dtype: "F32",
        file: 0,
        offset: 0,
        expertStride: 0,
        rowFirst: 0,
        rows: 1,
        cols: 1,
        ...values,
      },
    });
  const rope = (values: Partial<Manifest["config"]["rope"]>) => (manifest: Manifest) =>
    void Object.assign(manifest.config.rope, values);
  const file = (values: Partial<Manifest["files"][number]>) => (manifest: Manifest) =>
    void Object.assign(manifest.files[0]!, values);

  const cases: Array<[string, (manifest: Manifest) => void, RegExp]> = [
    ["range past the end", set("router", { offset: 1e9 }), /ffn_gate_inp.weight ends past the end/],
    ["range past 2^53", set("router", { offset: Number.MAX_SAFE_INTEGER }), /ffn_gate_inp.weight ends past the end/],
    ["offset past every number", set("router", { offset: 1e300 }), /offset/],
    ["stride past the end", set("expert_up", { expertStride: 2 ** 52 }), /ffn_up_exps.weight ends past the end/],
    [
      "more experts than the model",
      set("expert_up", { expertCount: 9 }),
      /ffn_up_exps.weight holds experts up to 9 of 8/,
    ],
    ["experts that wrap in 32 bits", set("expert_up", { expertCount: 2 ** 32 + 8 }), /expertCount/],
    ["experts from 1", set("expert_up", { expertFirst: 1 }), /ffn_up_exps.weight holds experts up to 9 of 8/],
    [
      "an expert too few",
      set("expert_down", { expertCount: 7 }),
      /tensors for 7 of 8 experts for expert_down of layer 0/,
    ],
    ["rows that wrap in 32 bits", set("router", { rows: 2 ** 32 + 8 }), /rows/],
    ["a row too many", set("router", { rows: 9 }), /ffn_gate_inp.weight has 9 rows of 64 where .* 8 of 64/],
    ["narrow rows", set("router", { cols: 63 }), /ffn_gate_inp.weight has 8 rows of 63 where .* 8 of 64/],
    ["broken blocks", set("router", { cols: 63, dtype: "Q8_0" }), /ffn_gate_inp.weight has rows of 63 values/],
    ["a gap", set("router", { rowFirst: 1 }), /ffn_gate_inp.weight overlaps or leaves a gap/],
    [
      "a tensor twice",
      (m) => void m.tensors.push({ ...find(m, "router") }),
      /ffn_gate_inp.weight overlaps or leaves a gap/,
    ],
    ["a type by another's name", set("router", { dtype: "toString" }), /ffn_gate_inp.weight is stored as "toString"/],
    ["no convolution", drop("gdn_conv"), /no tensor for gdn_conv of layer 0/],
    ["no output", drop("output"), /no tensor for output\./],
    ["no experts", drop("expert_gate"), /no tensor for expert_gate of layer 0/],
    ["no tensors", (m) => void (m.tensors = []), /tensors/],
    ["no files", (m) => void (m.files = []), /files/],
    ["scales past the end", scale({ offset: 1e9 }), /ffn_gate_inp.weight has scales that end past the end/],
    ["too few scales", scale({ rowFirst: 128 }), /ffn_gate_inp.weight has 1 x 1 scales where 2 x 1 are needed/],
    ["scales of another file", scale({ file: 4 }), /ffn_gate_inp.weight names file 4/],
    [
      "a layer too many",
      (m) => void (m.config.layers = m.config.layerKinds.push("gdn")),
      /no tensor for attn_norm of layer 4/,
    ],
    ["layers without kinds", (m) => void (m.config.layers = 1e9), /4 layer kinds for 1000000000 layers/],
    ["a vocabulary that wraps", (m) => void (m.config.vocab += 2 ** 32), /config.vocab/],
    ["uneven heads", (m) => void (m.config.kvHeads = 3), /4 query heads over 3 key heads/],
    ["odd rotation", rope({ rotaryDim: 9 }), /9 rotary dimensions/],
    ["rope base of nearly 0", rope({ theta: 1e-300 }), /a rope base of 1e-300/],
    ["rope base beyond float32", rope({ theta: 1e300 }), /a rope base of 1e\+300/],
    ["YaRN over nothing", rope({ kind: "yarn", factor: 4 }), /an original context of 0/],
    ["YaRN betas", rope({ kind: "yarn", factor: 4, originalContext: 64, betaFast: -1 }), /YaRN betas of -1/],
    ["epsilon of nearly 0", (m) => void (m.config.rmsEps = 1e-300), /an epsilon of 1e-300/],
    ["time of more than 64 bits", file({ mtimeNs: "9".repeat(20) }), /mtimeNs/],
    ["time of no digits", file({ mtimeNs: "1 day" }), /mtimeNs/],
    ["a path with an early end", file({ path: `${GGUF}\0.gguf` }), /files.0.path/],
    ["a path of two lines", file({ path: "a\nb" }), /files.0.path/],
    ["a path too long", file({ path: "/a".repeat(3000) }), /files.0.path/],
    ["no path", file({ path: "" }), /files.0.path/],
    ["a folder for a file", file({ path: temporary }), /is not a regular file/],
    ["a device for a file", file({ path: "/dev/zero" }), /is not a regular file/],
    ["a file that is gone", file({ path: "gone.gguf" }), /gone.gguf cannot be opened/],
    ["another size", (m) => void m.files[0]!.bytes++, /has \d+ bytes now and had \d+/],
    ["another file of that name", file({ inode: "1" }), /was changed or replaced/],
  ];
  test.each(cases)("%s", (_name, change, says) => {
    const path = next("manifest.json");
    const manifest = readModel(GGUF);
    change(manifest);
    writeFileSync(path, JSON.stringify(manifest));
    /* The manifest, or the file it lists: whichever the sentence is about. */
    const { message } = thrownBy(() => use(path));
    const subject = [path, GGUF, temporary, "/dev/zero"].find((each) => message.includes(each));
    expectRefusal(() => use(path), subject ?? path, says);
  });
});

describe("changed between reading and opening", () => {
  const open = (manifest: Manifest) => new NativeEngine(testLibrary(), manifest, testPlan());

  test("one part of a split model, written again with other weights: that part is named", () => {
    const model: FilledGguf = takeGguf(GGUF);
    const paths = putSplitGguf(next("split"), model, 3);
    const manifest = readModel(paths[0]!);
    for (const tensor of model.tensors) tensor.data.fill(0);
    copyFileSync(putSplitGguf(next("other"), model, 3)[1]!, paths[1]!);
    expectRefusal(() => open(manifest), paths[1]!, /was changed or replaced/);
  });
  test("the last shard is gone: it is named", () => {
    const paths = putSplitGguf(next("gone"), takeGguf(GGUF), 2);
    const manifest = readModel(paths[0]!);
    rmSync(paths[1]!);
    expect(expectRefusal(() => open(manifest), paths[1]!, /cannot be opened/).kind).toBe("missing");
    expect(expectRefusal(() => readModel(paths[0]!), paths[1]!, /is not there/).kind).toBe("missing");
  });
});

describe("text that a model comes with", () => {
  const ggufText = (key: string, value: string | number[]) => {
    const model = takeGguf(GGUF);
    model.metadata.set(key, value);
    return putGguf(next("text.gguf"), model);
  };
  const cases: Array<[string, string, string | number[], RegExp]> = [
    ["a template that is broken", "tokenizer.chat_template", "{% if %}", /chat template cannot be read/],
    [
      "a template that never ends",
      "tokenizer.chat_template",
      "{% for m in messages %}",
      /chat template cannot be read/,
    ],
    [
      "a tokenizer model of two lines",
      "tokenizer.ggml.model",
      "x\n\u001b[2J",
      /tokenizer model x\?\?\[2J is not supported/,
    ],
    ["an unknown pre-tokenizer", "tokenizer.ggml.pre", "gpt-9", /pre-tokenizer gpt-9 is not supported/],
    [
      "numbers for tokens",
      "tokenizer.ggml.tokens",
      [1, 2, 3],
      /tokenizer.ggml.tokens is missing or no list of strings/,
    ],
  ];
  test.each(cases)("GGUF: %s", (_name, key, value, says) => {
    const path = ggufText(key, value);
    expectRefusal(() => loadModelText(readModel(path)), path, says);
  });

  const files: Array<[string, string, RegExp]> = [
    ["chat_template.jinja", "{{ messages[ }}", /chat template cannot be read/],
    ["tokenizer.json", "{", /is not valid JSON/],
    ["tokenizer.json", "[]", /is not a JSON object/],
    ["tokenizer.json", `{"model":{"type":"Unigram"}}`, /is not a byte-level BPE tokenizer/],
    ["tokenizer_config.json", "[1]", /is not a JSON object/],
  ];
  test.each(files)("folder: %s of %j", (name, content, says) => {
    const folder = putSafetensors(next("text"), FOLDER, { tensors: takeSafetensors(FOLDER) });
    writeFileSync(join(folder, name), content);
    expectRefusal(() => loadModelText(readModel(folder)), join(folder, name), says);
  });
  test("a folder without tokenizer.json names it", () => {
    const folder = next("bare");
    mkdirSync(folder);
    putSafetensors(folder, FOLDER, { tensors: takeSafetensors(FOLDER) });
    rmSync(join(folder, "tokenizer.json"));
    expect(expectRefusal(() => loadModelText(readModel(folder)), "tokenizer.json", /is not there/).kind).toBe(
      "missing",
    );
  });
});

test("an empty tensor beside the tensor that begins where it does is no overlap", () => {
  const tensors = takeSafetensors(FOLDER);
  tensors.push({ name: "empty", dtype: "F32", shape: [0], data: Buffer.alloc(0), offset: 0 });
  const folder = putSafetensors(next("empty"), FOLDER, { tensors });
  expect(readModel(folder).ignored.unknown).toBe(1);
});
