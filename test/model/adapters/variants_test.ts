/** Other people's layouts of the same model: each must give the manifest that the plain layout gives, with the differences as data. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "bun:test";
import type { Manifest } from "../../../src/model/manifest.ts";
import { readModel } from "../../../src/model/source.ts";
import {
  draftOfFolder,
  draftOfGguf,
  type DraftTensor,
  type FolderDraft,
  type GgufDraft,
  temporaryFolder,
  writeFolder,
  writeGguf,
} from "../../fixtures/model_files.ts";
import { GOLDEN_MODELS } from "../../support/golden.ts";

const GGUF = join(GOLDEN_MODELS, "q35-r2/model.gguf");
const FOLDER = join(GOLDEN_MODELS, "q35-r2/hf");
const temporary = temporaryFolder();
let made = 0;
afterAll(() => rmSync(temporary, { recursive: true }));

function gguf(change: (draft: GgufDraft) => void): Manifest {
  const draft = draftOfGguf(GGUF);
  change(draft);
  return readModel(writeGguf(join(temporary, `${made++}.gguf`), draft));
}

function folder(change: (draft: FolderDraft) => void, from = FOLDER): Manifest {
  const draft = draftOfFolder(from);
  change(draft);
  const path = join(temporary, `${made++}`);
  mkdirSync(path);
  return readModel(writeFolder(path, draft));
}

function inner(draft: FolderDraft): Record<string, unknown> {
  return (draft.config["text_config"] ?? draft.config) as Record<string, unknown>;
}

function rename(tensors: DraftTensor[], pattern: RegExp, by: string): void {
  for (const tensor of tensors) tensor.name = tensor.name.replace(pattern, by);
}

const roles = (manifest: Manifest) => manifest.tensors.map((each) => `${each.role} ${each.layer} ${each.rows}`);

describe("the layout of Ollama's library", () => {
  const plain = readModel(GGUF);
  const ollama = gguf((draft) => {
    draft.metadata.set("qwen35moe.attention.head_count_kv", [0, 0, 0, 2]);
    draft.metadata.set("qwen35moe.rope.dimension_sections", [2, 1, 1]);
    draft.metadata.set("qwen35moe.image_token_id", 5);
    draft.metadata.set("qwen35moe.ssm.v_head_reordered", true);
    rename(draft.tensors, /ssm_dt\.bias$/, "ssm_dt");
    for (
      const name of ["v.patch_embd.weight", "mm.0.weight", "mtp.fc.weight", "mtp.layers.0.mlp.experts.0.up_proj.weight"]
    ) {
      draft.tensors.push({ name, dtype: "F32", shape: [4, 4] });
    }
  });
  test("is the same model", () => {
    expect(ollama.config).toEqual(plain.config);
    expect(roles(ollama)).toEqual(roles(plain));
  });
  test("its vision and prediction tensors are counted", () =>
    expect(ollama.ignored).toEqual({ vision: 2, mtp: 2, unknown: 0 }));
  test("v_head_reordered = false means grouped heads", () =>
    expect(gguf((d) => void d.metadata.set("qwen35moe.ssm.v_head_reordered", false)).config.gdnHeadOrder).toBe(
      "grouped",
    ));
});

describe("GGUF", () => {
  test("irregular layers by flags", () => {
    const flags = (draft: GgufDraft) =>
      void draft.metadata.set("qwen35moe.attention.recurrent_layers", [true, true, true, false]);
    expect(gguf(flags).config.layerKinds).toEqual(["gdn", "gdn", "gdn", "attention"]);
  });
  test("merged gate and up experts are two runs of one tensor", () => {
    const merged = gguf((draft) => {
      draft.tensors = draft.tensors.filter(({ name }) => !name.endsWith("ffn_up_exps.weight"));
      for (const tensor of draft.tensors.filter(({ name }) => name.endsWith("ffn_gate_exps.weight"))) {
        tensor.name = tensor.name.replace("gate_exps", "gate_up_exps");
        tensor.shape[1]! *= 2;
      }
    });
    expect(roles(merged)).toEqual(roles(readModel(GGUF)));
    const [gate, up] = ["expert_gate", "expert_up"].map((role) => merged.tensors.find((each) => each.role === role)!);
    expect(up!.offset - gate!.offset).toBe(gate!.expertStride / 2);
  });
  test("half a prediction layer is none: its tensors are counted", () => {
    const manifest = gguf((draft) => {
      draft.metadata.set("qwen35moe.block_count", 5);
      draft.metadata.set("qwen35moe.nextn_predict_layers", 1);
      draft.tensors.push({ name: "blk.4.nextn.eh_proj.weight", dtype: "F32", shape: [8, 8] });
    });
    expect([manifest.config.layers, manifest.config.mtpLayers, manifest.ignored.mtp]).toEqual([4, 0, 1]);
  });
  test("a tensor of unknown type and use is counted, not refused", () =>
    expect(gguf((d) => void d.tensors.push({ name: "odd", dtype: "type 99", shape: [32] })).ignored.unknown).toBe(1));
  test("NVFP4 with a scale per tensor", () => {
    const manifest = gguf((draft) => {
      draft.tensors.find(({ name }) => name === "blk.0.ffn_up_exps.weight")!.dtype = "NVFP4";
      draft.tensors.push({ name: "blk.0.ffn_up_exps.scale", dtype: "F32", shape: [8] });
    });
    const up = manifest.tensors.find(({ name }) => name === "blk.0.ffn_up_exps.weight")!;
    expect(up.scale).toMatchObject({ kind: "tensor", expertStride: 4, rows: 1, cols: 1 });
    expect(manifest.ignored.unknown).toBe(0);
  });
});

describe("Hugging Face", () => {
  const plain = readModel(FOLDER);
  const prefix = /^model\.(language_model\.)?/;

  test.each(["model.", "model.language_model.", "language_model.model."])("prefix %s", (by) => {
    expect(roles(folder((draft) => rename(draft.tensors, prefix, by)))).toEqual(roles(plain));
  });
  test("nested and flat configuration", () => {
    const nested = folder((draft) => {
      const text = { ...inner(draft), model_type: "qwen3_5_moe_text" };
      draft.config = { model_type: "qwen3_5_moe", text_config: text };
    });
    const flat = folder((draft) => void (draft.config = { ...inner(draft), model_type: "qwen3_5_moe_text" }));
    expect(nested.config).toEqual(plain.config);
    expect(flat.config).toEqual(plain.config);
  });
  test("layer_types left out: the interval counts", () =>
    expect(folder((draft) => void delete inner(draft)["layer_types"]).config.layerKinds).toEqual(
      plain.config.layerKinds,
    ));
  test("rope_scaling in the older spelling", () => {
    const { rope } = folder((draft) => {
      delete inner(draft)["rope_parameters"];
      Object.assign(inner(draft), {
        rope_theta: 5e6,
        partial_rotary_factor: 0.5,
        rope_scaling: {
          type: "yarn",
          factor: 2,
          original_max_position_embeddings: 128,
          attention_factor: 1.5,
          beta_fast: 16,
        },
      });
    }).config;
    expect(rope).toMatchObject({ kind: "yarn", theta: 5e6, rotaryDim: 16, factor: 2, originalContext: 128 });
    expect(rope).toMatchObject({ betaFast: 16, betaSlow: 1, attentionFactor: 1.5 });
  });
  test("an MLX export: norms are shifted already, A_log is not converted, experts have another name", () => {
    const mlx = folder((draft) => {
      for (const tensor of draft.tensors) {
        if (tensor.name.endsWith("conv1d.weight")) tensor.shape = [tensor.shape[0]!, 4, 1];
      }
      draft.tensors = draft.tensors.flatMap((tensor) => {
        const fused = /^(.*)mlp\.experts\.gate_up_proj$/.exec(tensor.name);
        const down = /^(.*)mlp\.experts\.down_proj$/.exec(tensor.name);
        if (down !== null) return [{ ...tensor, name: `${down[1]}mlp.switch_mlp.down_proj.weight` }];
        if (fused === null) return [tensor];
        const shape = [tensor.shape[0]!, tensor.shape[1]! / 2, tensor.shape[2]!];
        return ["gate", "up"].map((part) => ({
          ...tensor,
          shape,
          name: `${fused[1]}mlp.switch_mlp.${part}_proj.weight`,
        }));
      });
    });
    expect(roles(mlx)).toEqual(roles(plain));
    const transforms = (role: string) => mlx.tensors.find((each) => each.role === role)!.transform;
    expect([transforms("attn_norm"), transforms("output_norm"), transforms("gdn_decay")]).toEqual([
      "none",
      "none",
      "neg_exp",
    ]);
  });
  test("sampling: no sampling is greedy, -1 is off", () => {
    expect(folder((draft) => void (draft.generation = { do_sample: false, top_k: 5 })).sampling).toEqual({
      temperature: 0,
    });
    expect(folder((draft) => void (draft.generation = { top_k: -1 })).sampling).toEqual({ topK: 0 });
  });
});
