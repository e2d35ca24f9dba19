/**
 * Qwen3 MoE (Qwen3-30B-A3B, 235B-A22B): plain attention with full rotary embedding, plain norms, routed experts without a shared one
 * (HF `qwen3_moe`, GGUF `qwen3moe`). Source: transformers modeling_qwen3_moe.py. norm_topk_prob is obeyed.
 */
import type { ModelConfig } from "../manifest.ts";
import type { Adapter, GgufSource, HuggingFaceSource, ModelSource } from "./adapter.ts";
import { Binder } from "./binder.ts";
import { configFields, metadataFields, MOST_EXPERTS, MOST_LAYERS } from "./fields.ts";
import {
  classifyUnused,
  ggufExperts,
  huggingFaceExperts,
  outputNames,
  refuseVariants,
  textPrefix,
} from "./qwen35moe.ts";
import { ropeOfConfig, ropeOfMetadata } from "./rope.ts";

const WITHOUT_GDN_AND_MTP = {
  gdnKeyHeads: 0,
  gdnValueHeads: 0,
  gdnKeyDim: 0,
  gdnValueDim: 0,
  gdnConv: 0,
  gdnHeadOrder: "grouped",
  mtpLayers: 0,
} as const;

function configOfHuggingFace(source: HuggingFaceSource): ModelConfig {
  const config = configFields(source);
  const layers = config.count("num_hidden_layers", undefined, { most: MOST_LAYERS });
  refuseVariants(config);
  const heads = config.count("num_attention_heads");
  const headDim = config.count("head_dim", Math.trunc(config.count("hidden_size") / heads));
  return {
    layers,
    hidden: config.count("hidden_size"),
    vocab: config.count("vocab_size"),
    context: config.count("max_position_embeddings", 32768),
    heads,
    kvHeads: config.count("num_key_value_heads", heads),
    headDim,
    attnGated: false,
    layerKinds: Array.from({ length: layers }, () => "attention" as const),
    ...WITHOUT_GDN_AND_MTP,
    experts: config.count("num_experts", undefined, { most: MOST_EXPERTS }),
    expertsUsed: config.count("num_experts_per_tok"),
    expertFf: config.count("moe_intermediate_size"),
    sharedFf: 0,
    normTopk: config.flag("norm_topk_prob", false),
    rmsEps: config.number("rms_norm_eps", 1e-6),
    rope: ropeOfConfig(config, `${source.path}/config.json`, headDim, { theta: 10000, partial: 1 }),
  };
}

function configOfGguf(source: GgufSource): ModelConfig {
  const meta = metadataFields(source);
  const layers = meta.count("block_count", undefined, { most: MOST_LAYERS });
  const headDim = meta.count("attention.key_length", 128);
  return {
    layers,
    hidden: meta.count("embedding_length"),
    vocab: meta.count("vocab_size", source.tensors.get("token_embd.weight")?.shape[0]),
    context: meta.count("context_length"),
    heads: meta.count("attention.head_count"),
    kvHeads: meta.count("attention.head_count_kv"),
    headDim,
    attnGated: false,
    layerKinds: Array.from({ length: layers }, () => "attention" as const),
    ...WITHOUT_GDN_AND_MTP,
    experts: meta.count("expert_count", undefined, { most: MOST_EXPERTS }),
    expertsUsed: meta.count("expert_used_count"),
    expertFf: meta.count("expert_feed_forward_length"),
    sharedFf: 0,
    normTopk: meta.flag("expert_weights_norm", true),
    rmsEps: meta.number("attention.layer_norm_rms_epsilon", 1e-6),
    rope: ropeOfMetadata(meta, source.path, headDim),
  };
}

const SUFFIXES = {
  attn_norm: ["input_layernorm.weight", "attn_norm.weight"],
  ffn_norm: ["post_attention_layernorm.weight", "ffn_norm.weight"],
  attn_q: ["self_attn.q_proj.weight", "attn_q.weight"],
  attn_k: ["self_attn.k_proj.weight", "attn_k.weight"],
  attn_v: ["self_attn.v_proj.weight", "attn_v.weight"],
  attn_out: ["self_attn.o_proj.weight", "attn_output.weight"],
  attn_q_norm: ["self_attn.q_norm.weight", "attn_q_norm.weight"],
  attn_k_norm: ["self_attn.k_norm.weight", "attn_k_norm.weight"],
  router: ["mlp.gate.weight", "ffn_gate_inp.weight"],
} as const;

function bindLayer(
  binder: Binder,
  source: ModelSource,
  config: ModelConfig,
  layer: { index: number; prefix: string },
): void {
  const add = (role: keyof typeof SUFFIXES, rows: number, cols: number) => {
    const [huggingFace, gguf] = SUFFIXES[role];
    const names = [layer.prefix + (source.format === "gguf" ? gguf : huggingFace)];
    binder.matrix({ role, layer: layer.index, names }, { rows, cols });
  };
  const { hidden, headDim } = config;
  add("attn_norm", 1, hidden);
  add("ffn_norm", 1, hidden);
  add("attn_q", config.heads * headDim, hidden);
  add("attn_k", config.kvHeads * headDim, hidden);
  add("attn_v", config.kvHeads * headDim, hidden);
  add("attn_out", hidden, config.heads * headDim);
  add("attn_q_norm", 1, headDim);
  add("attn_k_norm", 1, headDim);
  add("router", config.experts, hidden);
  const experts = source.format === "gguf" ? ggufExperts(layer.prefix) : huggingFaceExperts(layer.prefix);
  binder.experts(layer.index, experts, { experts: config.experts, ff: config.expertFf, hidden });
}

export const qwen3moe: Adapter = {
  family: "qwen3moe",
  matches: (source) =>
    source.format === "gguf"
      ? source.metadata.get("general.architecture") === "qwen3moe"
      : source.config["model_type"] === "qwen3_moe",
  build(source) {
    const config = source.format === "gguf" ? configOfGguf(source) : configOfHuggingFace(source);
    const gguf = source.format === "gguf";
    const prefix = gguf ? "" : textPrefix(source);
    const binder = new Binder(source);
    const embedding = gguf ? "token_embd.weight" : `${prefix}embed_tokens.weight`;
    const output = source.format === "gguf" ? ["output.weight", embedding] : outputNames(configFields(source), prefix);
    binder.matrix({ role: "token_embedding", layer: -1, names: [embedding] }, {
      rows: config.vocab,
      cols: config.hidden,
    });
    binder.matrix({ role: "output", layer: -1, names: output }, { rows: config.vocab, cols: config.hidden });
    const norm = gguf ? "output_norm.weight" : `${prefix}norm.weight`;
    binder.matrix({ role: "output_norm", layer: -1, names: [norm] }, { rows: 1, cols: config.hidden });
    for (let i = 0; i < config.layers; i++) {
      bindLayer(binder, source, config, { index: i, prefix: gguf ? `blk.${i}.` : `${prefix}layers.${i}.` });
    }
    return { config, tensors: binder.tensors, ignored: binder.finish((name) => classifyUnused(name, config)) };
  },
};
