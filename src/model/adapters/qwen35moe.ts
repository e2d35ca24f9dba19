/**
 * Qwen3.5 / Qwen3.6 MoE: Gated DeltaNet + gated attention + routed experts with a shared expert (HF `qwen3_5_moe`, GGUF `qwen35moe`).
 *
 * Sources: transformers modeling_qwen3_5_moe.py and configuration; llama.cpp conversion/qwen.py for the GGUF transforms: there norms
 * already hold +1, ssm_a is -exp(A_log), and value heads are tiled (h mod key heads) instead of grouped (h div r).
 */
import { SurgeError } from "../../base/errors.ts";
import type { ModelConfig } from "../manifest.ts";
import type { Adapter, GgufSource, HuggingFaceSource, ModelSource } from "./adapter.ts";
import { quoted } from "../untrusted_text.ts";
import { Binder, type ExpertNames } from "./binder.ts";
import { configFields, type Fields, metadataFields, MOST_EXPERTS, MOST_LAYERS } from "./fields.ts";
import { ropeOfConfig, ropeOfMetadata } from "./rope.ts";

type LayerKinds = ModelConfig["layerKinds"];

function everyNth(layers: number, interval: number): LayerKinds {
  return Array.from({ length: layers }, (_, i) => (i + 1) % interval === 0 ? "attention" : "gdn");
}

/* ---- configuration ---- */

function kindsOfConfig(config: Fields, layers: number, path: string): LayerKinds {
  const types = config.raw("layer_types");
  if (!Array.isArray(types)) return everyNth(layers, config.count("full_attention_interval", 4));
  if (types.length !== layers) {
    throw new SurgeError("data", `${path}/config.json: layer_types names ${types.length} layers of ${layers}.`);
  }
  return types.map((type) => {
    if (type === "linear_attention") return "gdn";
    if (type === "full_attention") return "attention";
    throw new SurgeError("data", `${path}/config.json: layer type ${quoted(type)} is not supported.`);
  });
}

/** Switches of the configuration class that no released model of the families turns. */
export function refuseVariants(config: Fields): void {
  config.refuse("attention_bias", (value) => value !== false);
  config.refuse("hidden_act", (value) => value !== "silu");
  config.refuse("mlp_only_layers", (value) => !Array.isArray(value) || value.length > 0);
  config.refuse("use_sliding_window", (value) => value !== false);
}

/** Whether the output matrix is the embedding: stated by the checkpoint, never guessed from a tensor that is missing. */
export function outputNames(config: Fields, prefix: string): string[] {
  const tied = config.flag("tie_word_embeddings", false);
  return tied ? [`${prefix}embed_tokens.weight`] : ["lm_head.weight", "language_model.lm_head.weight"];
}

function configOfHuggingFace(source: HuggingFaceSource): ModelConfig {
  const config = configFields(source);
  const layers = config.count("num_hidden_layers", undefined, { most: MOST_LAYERS });
  const headDim = config.count("head_dim", 256);
  refuseVariants(config);
  return {
    layers,
    hidden: config.count("hidden_size"),
    vocab: config.count("vocab_size"),
    context: config.count("max_position_embeddings", 32768),
    heads: config.count("num_attention_heads"),
    kvHeads: config.count("num_key_value_heads"),
    headDim,
    attnGated: config.flag("attn_output_gate", true),
    layerKinds: kindsOfConfig(config, layers, source.path),
    gdnKeyHeads: config.count("linear_num_key_heads"),
    gdnValueHeads: config.count("linear_num_value_heads"),
    gdnKeyDim: config.count("linear_key_head_dim"),
    gdnValueDim: config.count("linear_value_head_dim"),
    gdnConv: config.count("linear_conv_kernel_dim", 4),
    gdnHeadOrder: "grouped",
    experts: config.count("num_experts", undefined, { most: MOST_EXPERTS }),
    expertsUsed: config.count("num_experts_per_tok"),
    expertFf: config.count("moe_intermediate_size"),
    sharedFf: config.count("shared_expert_intermediate_size"),
    normTopk: true,
    mtpLayers: 0,
    rmsEps: config.number("rms_norm_eps", 1e-6),
    rope: ropeOfConfig(config, `${source.path}/config.json`, headDim, { theta: 1e7, partial: 0.25 }),
  };
}

function kindsOfMetadata(meta: Fields, layers: number): LayerKinds {
  const recurrent = meta.raw("attention.recurrent_layers");
  if (Array.isArray(recurrent) && recurrent.length >= layers) {
    return recurrent.slice(0, layers).map((flag) => Number(flag) !== 0 ? "gdn" : "attention");
  }
  const kvHeads = meta.raw("attention.head_count_kv");
  if (Array.isArray(kvHeads) && kvHeads.length >= layers) {
    return kvHeads.slice(0, layers).map((n) => Number(n) === 0 ? "gdn" : "attention");
  }
  return everyNth(layers, meta.count("full_attention_interval", 4));
}

function configOfGguf(source: GgufSource): ModelConfig {
  const meta = metadataFields(source);
  const layers = meta.count("block_count", undefined, { most: MOST_LAYERS }) -
    meta.count("nextn_predict_layers", 0, { least: 0 });
  if (layers < 1) throw new SurgeError("data", `${source.path}: the file holds prediction layers only, no model.`);
  const headDim = meta.count("attention.key_length", 256);
  const valueHeads = meta.count("ssm.time_step_rank");
  const embedding = source.tensors.get("token_embd.weight");
  return {
    layers,
    hidden: meta.count("embedding_length"),
    vocab: meta.count("vocab_size", embedding?.shape[0]),
    context: meta.count("context_length"),
    heads: meta.largestCount("attention.head_count"),
    kvHeads: meta.largestCount("attention.head_count_kv"),
    headDim,
    attnGated: true,
    layerKinds: kindsOfMetadata(meta, layers),
    gdnKeyHeads: meta.count("ssm.group_count"),
    gdnValueHeads: valueHeads,
    gdnKeyDim: meta.count("ssm.state_size"),
    gdnValueDim: Math.trunc(meta.count("ssm.inner_size") / valueHeads),
    gdnConv: meta.count("ssm.conv_kernel", 4),
    gdnHeadOrder: meta.flag("ssm.v_head_reordered", true) ? "tiled" : "grouped",
    experts: meta.count("expert_count", undefined, { most: MOST_EXPERTS }),
    expertsUsed: meta.count("expert_used_count"),
    expertFf: meta.count("expert_feed_forward_length"),
    sharedFf: meta.count("expert_shared_feed_forward_length"),
    normTopk: true,
    mtpLayers: 0,
    rmsEps: meta.number("attention.layer_norm_rms_epsilon", 1e-6),
    rope: ropeOfMetadata(meta, source.path, headDim),
  };
}

/* ---- tensors ---- */

/** The prediction layer: an ordinary layer's names behind `layer`, and what leads into it and out of it. */
interface MtpNames {
  layer: string;
  projection: string;
  embeddingNorm: string;
  hiddenNorm: string;
  norm: string;
  /** Not in every file: the model's own are used instead. */
  embedding: string;
  output: string;
}

/** Names of one format; functions of the layer's prefix would say no more than these suffixes do. */
interface Names {
  embedding: string[];
  outputNorm: string[];
  output: string[];
  layer: (index: number) => string;
  suffix: Record<string, string[]>;
  experts: (prefix: string) => ExpertNames;
  mtp: MtpNames;
  /** Norms are zero-centred, as trained. */
  centred: boolean;
  /** gdn_decay holds A_log, as trained. */
  logDecay: boolean;
}

const HUGGING_FACE_SUFFIXES: Names["suffix"] = {
  attn_norm: ["input_layernorm.weight"],
  ffn_norm: ["post_attention_layernorm.weight"],
  attn_q: ["self_attn.q_proj.weight"],
  attn_k: ["self_attn.k_proj.weight"],
  attn_v: ["self_attn.v_proj.weight"],
  attn_out: ["self_attn.o_proj.weight"],
  attn_q_norm: ["self_attn.q_norm.weight"],
  attn_k_norm: ["self_attn.k_norm.weight"],
  gdn_qkv: ["linear_attn.in_proj_qkv.weight"],
  gdn_z: ["linear_attn.in_proj_z.weight"],
  gdn_b: ["linear_attn.in_proj_b.weight"],
  gdn_a: ["linear_attn.in_proj_a.weight"],
  gdn_conv: ["linear_attn.conv1d.weight"],
  gdn_dt_bias: ["linear_attn.dt_bias"],
  gdn_decay: ["linear_attn.A_log"],
  gdn_norm: ["linear_attn.norm.weight"],
  gdn_out: ["linear_attn.out_proj.weight"],
  router: ["mlp.gate.weight"],
  shared_router: ["mlp.shared_expert_gate.weight"],
  shared_gate: ["mlp.shared_expert.gate_proj.weight"],
  shared_up: ["mlp.shared_expert.up_proj.weight"],
  shared_down: ["mlp.shared_expert.down_proj.weight"],
};

const GGUF_SUFFIXES: Names["suffix"] = {
  attn_norm: ["attn_norm.weight"],
  ffn_norm: ["post_attention_norm.weight", "ffn_norm.weight"],
  attn_q: ["attn_q.weight"],
  attn_k: ["attn_k.weight"],
  attn_v: ["attn_v.weight"],
  attn_out: ["attn_output.weight"],
  attn_q_norm: ["attn_q_norm.weight"],
  attn_k_norm: ["attn_k_norm.weight"],
  gdn_qkv: ["attn_qkv.weight"],
  gdn_z: ["attn_gate.weight"],
  gdn_b: ["ssm_beta.weight"],
  gdn_a: ["ssm_alpha.weight"],
  gdn_conv: ["ssm_conv1d.weight"],
  gdn_dt_bias: ["ssm_dt.bias", "ssm_dt"],
  gdn_decay: ["ssm_a"],
  gdn_norm: ["ssm_norm.weight"],
  gdn_out: ["ssm_out.weight"],
  router: ["ffn_gate_inp.weight"],
  shared_router: ["ffn_gate_inp_shexp.weight"],
  shared_gate: ["ffn_gate_shexp.weight"],
  shared_up: ["ffn_up_shexp.weight"],
  shared_down: ["ffn_down_shexp.weight"],
};

function ggufMtp(config: ModelConfig): MtpNames {
  const prefix = `blk.${config.layers}.nextn.`;
  return {
    layer: `blk.${config.layers}.`,
    projection: `${prefix}eh_proj.weight`,
    embeddingNorm: `${prefix}enorm.weight`,
    hiddenNorm: `${prefix}hnorm.weight`,
    norm: `${prefix}shared_head_norm.weight`,
    embedding: `${prefix}embed_tokens.weight`,
    output: `${prefix}shared_head_head.weight`,
  };
}

function huggingFaceMtp(source: ModelSource): MtpNames {
  const prefixes = ["mtp.", "model.mtp.", "language_model.mtp."];
  const prefix = prefixes.find((candidate) => source.tensors.has(`${candidate}fc.weight`)) ?? "mtp.";
  return {
    layer: `${prefix}layers.0.`,
    projection: `${prefix}fc.weight`,
    embeddingNorm: `${prefix}pre_fc_norm_embedding.weight`,
    hiddenNorm: `${prefix}pre_fc_norm_hidden.weight`,
    norm: `${prefix}norm.weight`,
    embedding: `${prefix}embed_tokens.weight`,
    output: `${prefix}lm_head.weight`,
  };
}

export const PREFIXES = ["model.language_model.", "language_model.model.", "model."];

/** The prefix under which a checkpoint keeps its text model. */
export function textPrefix(source: ModelSource): string {
  const prefix = PREFIXES.find((candidate) => source.tensors.has(`${candidate}embed_tokens.weight`));
  if (prefix === undefined) {
    throw new SurgeError("data", `${source.path} lacks tensor model.embed_tokens.weight; the file is incomplete.`);
  }
  return prefix;
}

export function huggingFaceExperts(prefix: string): ExpertNames {
  return {
    /* switch_mlp is MLX's name. */
    gate: [`${prefix}mlp.experts.gate_proj`, `${prefix}mlp.switch_mlp.gate_proj.weight`],
    up: [`${prefix}mlp.experts.up_proj`, `${prefix}mlp.switch_mlp.up_proj.weight`],
    down: [`${prefix}mlp.experts.down_proj`, `${prefix}mlp.switch_mlp.down_proj.weight`],
    gateUp: `${prefix}mlp.experts.gate_up_proj`,
    single: (expert, part) => `${prefix}mlp.experts.${expert}.${part}_proj.weight`,
  };
}

export function ggufExperts(prefix: string): ExpertNames {
  return {
    gate: [`${prefix}ffn_gate_exps.weight`],
    up: [`${prefix}ffn_up_exps.weight`],
    down: [`${prefix}ffn_down_exps.weight`],
    gateUp: `${prefix}ffn_gate_up_exps.weight`,
  };
}

function namesOf(source: ModelSource, config: ModelConfig): Names {
  if (source.format === "gguf") {
    return {
      embedding: ["token_embd.weight"],
      outputNorm: ["output_norm.weight"],
      output: ["output.weight", "token_embd.weight"],
      layer: (index) => `blk.${index}.`,
      suffix: GGUF_SUFFIXES,
      experts: ggufExperts,
      mtp: ggufMtp(config),
      centred: false,
      logDecay: false,
    };
  }
  const prefix = textPrefix(source);
  return {
    embedding: [`${prefix}embed_tokens.weight`],
    outputNorm: [`${prefix}norm.weight`],
    output: outputNames(configFields(source), prefix),
    layer: (index) => `${prefix}layers.${index}.`,
    suffix: HUGGING_FACE_SUFFIXES,
    experts: huggingFaceExperts,
    mtp: huggingFaceMtp(source),
    centred: !isShifted(source, prefix),
    logDecay: true,
  };
}

/** MLX exports store the convolution as [channels, taps, 1] and have added 1 to the norms already; A_log they leave alone. */
function isShifted(source: ModelSource, prefix: string): boolean {
  const conv = [...source.tensors.values()].find((t) =>
    t.name.startsWith(prefix) && t.name.endsWith("linear_attn.conv1d.weight")
  );
  return conv !== undefined && conv.shape.length === 3 && conv.shape[1] !== 1 && conv.shape[2] === 1;
}

interface LayerPlace {
  index: number;
  kind: LayerKinds[number];
  prefix: string;
}

function bindLayer(binder: Binder, config: ModelConfig, names: Names, { index, kind, prefix }: LayerPlace): void {
  const place = (role: Parameters<Binder["matrix"]>[0]["role"]) => ({
    role,
    layer: index,
    names: names.suffix[role]!.map((suffix) => prefix + suffix),
  });
  const centred = names.centred ? "add_one" : "none";
  const { hidden, headDim } = config;
  binder.matrix(place("attn_norm"), { rows: 1, cols: hidden, transform: centred });
  binder.matrix(place("ffn_norm"), { rows: 1, cols: hidden, transform: centred });
  if (kind === "attention") {
    const queries = config.heads * headDim;
    binder.matrix(place("attn_q"), { rows: queries * (config.attnGated ? 2 : 1), cols: hidden });
    binder.matrix(place("attn_k"), { rows: config.kvHeads * headDim, cols: hidden });
    binder.matrix(place("attn_v"), { rows: config.kvHeads * headDim, cols: hidden });
    binder.matrix(place("attn_out"), { rows: hidden, cols: queries });
    binder.matrix(place("attn_q_norm"), { rows: 1, cols: headDim, transform: centred });
    binder.matrix(place("attn_k_norm"), { rows: 1, cols: headDim, transform: centred });
  } else {
    bindGdn(binder, config, place, names.logDecay);
  }
  binder.matrix(place("router"), { rows: config.experts, cols: hidden });
  binder.matrix(place("shared_router"), { rows: 1, cols: hidden });
  binder.matrix(place("shared_gate"), { rows: config.sharedFf, cols: hidden });
  binder.matrix(place("shared_up"), { rows: config.sharedFf, cols: hidden });
  binder.matrix(place("shared_down"), { rows: hidden, cols: config.sharedFf });
  binder.experts(index, names.experts(prefix), { experts: config.experts, ff: config.expertFf, hidden });
}

function bindGdn(
  binder: Binder,
  config: ModelConfig,
  place: (role: Parameters<Binder["matrix"]>[0]["role"]) => Parameters<Binder["matrix"]>[0],
  logDecay: boolean,
): void {
  const values = config.gdnValueHeads * config.gdnValueDim;
  const channels = 2 * config.gdnKeyHeads * config.gdnKeyDim + values;
  binder.matrix(place("gdn_qkv"), { rows: channels, cols: config.hidden });
  binder.matrix(place("gdn_z"), { rows: values, cols: config.hidden });
  binder.matrix(place("gdn_b"), { rows: config.gdnValueHeads, cols: config.hidden });
  binder.matrix(place("gdn_a"), { rows: config.gdnValueHeads, cols: config.hidden });
  binder.matrix(place("gdn_conv"), { rows: channels, cols: config.gdnConv });
  binder.matrix(place("gdn_dt_bias"), { rows: 1, cols: config.gdnValueHeads });
  binder.matrix(place("gdn_decay"), { rows: 1, cols: config.gdnValueHeads, transform: logDecay ? "neg_exp" : "none" });
  binder.matrix(place("gdn_norm"), { rows: 1, cols: config.gdnValueDim });
  binder.matrix(place("gdn_out"), { rows: config.hidden, cols: values });
}

/** Roles of a layer with attention, stored one by one; experts have several forms. */
const ATTENTION_ROLES = ["attn_q", "attn_k", "attn_v", "attn_out", "attn_q_norm", "attn_k_norm"];
const LAYER_ROLES = ["attn_norm", "ffn_norm", ...ATTENTION_ROLES, "router", "shared_router"];

/** Conversions often drop the prediction layer or parts of it; half of one is none. */
function hasMtp(binder: Binder, { mtp, suffix, experts }: Names): boolean {
  const stored = experts(mtp.layer);
  const one = (part: "gate" | "up" | "down") => stored.single === undefined ? [] : [stored.single(0, part)];
  return [
    ...[mtp.projection, mtp.embeddingNorm, mtp.hiddenNorm, mtp.norm].map((name) => [name]),
    ...LAYER_ROLES.map((role) => suffix[role]!.map((end) => mtp.layer + end)),
    [...stored.gate, stored.gateUp, ...one("gate")],
    [...stored.up, stored.gateUp, ...one("up")],
    [...stored.down, ...one("down")],
  ].every((names) => binder.find(names) !== undefined);
}

function bindMtp(binder: Binder, config: ModelConfig, names: Names): void {
  const { mtp } = names;
  const { hidden, vocab, layers: layer } = config;
  const transform = names.centred ? "add_one" : "none";
  const norm = { rows: 1, cols: hidden, transform } as const;
  binder.matrix({ role: "mtp_projection", layer, names: [mtp.projection] }, { rows: hidden, cols: 2 * hidden });
  binder.matrix({ role: "mtp_embedding_norm", layer, names: [mtp.embeddingNorm] }, norm);
  binder.matrix({ role: "mtp_hidden_norm", layer, names: [mtp.hiddenNorm] }, norm);
  binder.matrix({ role: "mtp_norm", layer, names: [mtp.norm] }, norm);
  for (const [role, name] of [["mtp_embedding", mtp.embedding], ["mtp_output", mtp.output]] as const) {
    if (binder.find([name])) binder.matrix({ role, layer, names: [name] }, { rows: vocab, cols: hidden });
  }
  bindLayer(binder, config, names, { index: layer, kind: "attention", prefix: mtp.layer });
}

/** Why a tensor of these families is left unused. */
export function classifyUnused(name: string, config: ModelConfig): "vision" | "mtp" | "unknown" {
  if (/(^|\.)(visual|vision_tower|vision_model)\.|^(v|mm)\./.test(name)) return "vision";
  const block = /^blk\.(\d+)\./.exec(name);
  return /(^|\.)mtp\./.test(name) || (block !== null && Number(block[1]) >= config.layers) ? "mtp" : "unknown";
}

export const qwen35moe: Adapter = {
  family: "qwen35moe",
  matches: (source) =>
    source.format === "gguf"
      ? source.metadata.get("general.architecture") === "qwen35moe"
      : ["qwen3_5_moe", "qwen3_5_moe_text"].includes(source.config["model_type"] as string),
  build(source) {
    const config = source.format === "gguf" ? configOfGguf(source) : configOfHuggingFace(source);
    const names = namesOf(source, config);
    const binder = new Binder(source);
    binder.matrix({ role: "token_embedding", layer: -1, names: names.embedding }, {
      rows: config.vocab,
      cols: config.hidden,
    });
    binder.matrix({ role: "output", layer: -1, names: names.output }, { rows: config.vocab, cols: config.hidden });
    const transform = names.centred ? "add_one" : "none";
    binder.matrix({ role: "output_norm", layer: -1, names: names.outputNorm }, {
      rows: 1,
      cols: config.hidden,
      transform,
    });
    config.layerKinds.forEach((kind, index) =>
      bindLayer(binder, config, names, { index, kind, prefix: names.layer(index) })
    );
    config.mtpLayers = hasMtp(binder, names) ? 1 : 0;
    if (config.mtpLayers > 0) bindMtp(binder, config, names);
    return { config, tensors: binder.tensors, ignored: binder.finish((name) => classifyUnused(name, config)) };
  },
};
