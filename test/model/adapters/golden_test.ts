/**
 * Adapters on the golden models: what a manifest says must be what the files hold, and a Hugging Face folder and the GGUF made from it
 * must be the same model. An adapter that forgets a transform or a head order shows here before any arithmetic runs.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "bun:test";
import { DTYPES, tensorBytes } from "../../../src/model/dtypes.ts";
import { Manifest, type ManifestTensor } from "../../../src/model/manifest.ts";
import { readModel } from "../../../src/model/source.ts";
import { GOLDEN_MODELS, goldenModels } from "../../support/golden.ts";

const MODELS = goldenModels();
const manifestOf = (path: string) => readModel(join(GOLDEN_MODELS, path));

function only(manifest: Manifest, role: string, layer: number): ManifestTensor {
  return manifest.tensors.find((tensor) => tensor.role === role && tensor.layer === layer)!;
}

describe.each(MODELS)("$name", ({ path }) => {
  const manifest = readModel(path);

  test("is a valid manifest without unknown tensors", () => {
    expect(Manifest.parse(manifest)).toEqual(manifest);
    expect(manifest.ignored.unknown).toBe(0);
    expect(manifest.config.layerKinds.length).toBe(manifest.config.layers);
  });

  test("every run lies inside its file and every expert is there once", () => {
    const { experts, layers } = manifest.config;
    for (const tensor of manifest.tensors) {
      const bytes = tensorBytes(DTYPES.get(tensor.dtype)!, tensor.rows, tensor.cols)!;
      const end = tensor.offset + (tensor.expertCount - 1) * tensor.expertStride + bytes;
      expect(end).toBeLessThanOrEqual(manifest.files[tensor.file]!.bytes);
    }
    for (const role of ["expert_gate", "expert_up", "expert_down"]) {
      for (let layer = 0; layer < layers; layer++) {
        const runs = manifest.tensors.filter((tensor) => tensor.role === role && tensor.layer === layer);
        const seen = runs.flatMap((run) => Array.from({ length: run.expertCount }, (_, i) => run.expertFirst + i));
        expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: experts }, (_, i) => i));
      }
    }
  });
});

const PAIRS = ["q35-r1", "q35-r2", "q35-r3", "q35-bf16", "q35-tied", "q35-yarn", "q3moe"];

describe.each(PAIRS)("%s: folder and GGUF agree", (name) => {
  const folder = manifestOf(`${name}/hf`);
  const gguf = manifestOf(`${name}/model.gguf`);

  test("in configuration, but for the order of value heads", () => {
    const family = folder.family;
    const expected = family === "qwen35moe" ? "tiled" : "grouped";
    expect(folder.config.gdnHeadOrder).toBe("grouped");
    expect(gguf.config.gdnHeadOrder).toBe(expected);
    const { rmsEps, rope, ...rest } = folder.config;
    const other = gguf.config;
    expect({ ...rest, gdnHeadOrder: expected }).toEqual({ ...other, rmsEps: undefined, rope: undefined } as never);
    /* GGUF stores these as float32. */
    expect(other.rmsEps).toBe(Math.fround(rmsEps));
    expect(other.rope).toEqual({ ...rope, theta: Math.fround(rope.theta) });
  });

  test("in roles, and in shape role by role", () => {
    const shapes = (manifest: Manifest) =>
      [...new Set(manifest.tensors.map((t) => `${t.role} ${t.layer} ${t.rows} ${t.cols}`))].sort();
    expect(shapes(folder)).toEqual(shapes(gguf));
  });
});

test("numbers of q35-r2 are those of its config.json", () => {
  const { config, sampling, stopTokens } = manifestOf("q35-r2/hf");
  const json = JSON.parse(readFileSync(join(GOLDEN_MODELS, "q35-r2/hf/config.json"), "utf8"));
  const text = json.text_config ?? json;
  expect(config.layerKinds).toEqual(["gdn", "gdn", "gdn", "attention"]);
  expect([config.hidden, config.vocab, config.headDim]).toEqual([text.hidden_size, text.vocab_size, text.head_dim]);
  expect([config.gdnKeyHeads, config.gdnValueHeads, config.rope.rotaryDim]).toEqual([2, 4, 8]);
  expect(sampling).toEqual({ temperature: 1, topK: 20, topP: 0.95 });
  expect(stopTokens).toEqual([280, 278]);
});

test("transforms: folders hold raw norms and A_log, GGUF files converted ones", () => {
  const folder = manifestOf("q35-r2/hf");
  const gguf = manifestOf("q35-r2/model.gguf");
  const centred = ["attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm", "output_norm"];
  for (const { role, transform } of folder.tensors) {
    expect(transform).toBe(centred.includes(role) ? "add_one" : role === "gdn_decay" ? "neg_exp" : "none");
  }
  expect(new Set(gguf.tensors.map((tensor) => tensor.transform))).toEqual(new Set(["none"]));
  expect(new Set(manifestOf("q3moe/hf").tensors.map((tensor) => tensor.transform))).toEqual(new Set(["none"]));
});

test("fused experts: gate rows first, up rows behind them, the same stride", () => {
  const manifest = manifestOf("q35-r2/hf");
  const gate = only(manifest, "expert_gate", 0);
  const up = only(manifest, "expert_up", 0);
  const half = tensorBytes(DTYPES.get(gate.dtype)!, gate.rows, gate.cols)!;
  expect(gate.name).toBe(up.name);
  expect(up.offset - gate.offset).toBe(half);
  expect([gate.expertStride, up.expertStride]).toEqual([2 * half, 2 * half]);
});

test("tied embeddings: the output is the embedding's range", () => {
  for (const path of ["q35-tied/hf", "q35-tied/model.gguf"]) {
    const { role: _a, ...output } = only(manifestOf(path), "output", -1);
    const { role: _b, ...embedding } = only(manifestOf(path), "token_embedding", -1);
    expect(output).toEqual(embedding);
  }
});

test("FP8: block scales beside every FP8 tensor, none beside others", () => {
  const manifest = manifestOf("q35-fp8/hf");
  expect(manifest.tensors.some((tensor) => tensor.dtype === "F8_E4M3")).toBe(true);
  for (const { dtype, scale, rows, cols } of manifest.tensors) {
    if (dtype !== "F8_E4M3") expect(scale).toBeUndefined();
    else {
      expect([scale!.kind, scale!.rows, scale!.cols])
        .toEqual(["block_128", Math.ceil((rows + scale!.rowFirst) / 128), Math.ceil(cols / 128)]);
    }
  }
});

test("YaRN is read, top-k renormalisation is obeyed, other tensors are counted", () => {
  const { rope } = manifestOf("q35-yarn/hf").config;
  expect(rope).toMatchObject({
    kind: "yarn",
    factor: 4,
    originalContext: 64,
    betaFast: 32,
    betaSlow: 1,
    rotaryDim: 16,
  });
  expect(rope.attentionFactor).toBeCloseTo(1.138629436, 8);
  expect(manifestOf("q3moe/hf").config.normTopk).toBe(true);
  expect(manifestOf("q3moe-notopk/hf").config.normTopk).toBe(false);
  for (const name of ["q35-bf16/hf", "q35-bf16/model.gguf"]) {
    const { config, ignored, tensors } = manifestOf(name);
    expect([config.layers, config.mtpLayers, ignored]).toEqual([2, 1, { vision: 0, mtp: 0, unknown: 0 }]);
    expect(tensors.filter(({ role }) => role.startsWith("mtp_")).map(({ role }) => role).sort()).toEqual(
      ["mtp_embedding_norm", "mtp_hidden_norm", "mtp_norm", "mtp_projection"],
    );
  }
  expect(manifestOf("q35-r2/hf").config.mtpLayers).toBe(0);
  expect(manifestOf("q35-sharded/hf").ignored.vision).toBe(5);
});
