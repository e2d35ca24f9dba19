/**
 * The manifest: what a model *is*, in one normalised shape whatever file it came from.
 *
 * Adapters (adapters/) produce it; the engine is built from it and never from a file format. Numbers here are facts read
 * from files, not guesses. A manifest holds no weights and no text tables: only where they are.
 */
import { z } from "zod";

const MOST_U32 = 0xffffffff;
const MOST_U64 = (1n << 64n) - 1n;

/** Counts and indices cross to C as 32-bit numbers, byte offsets and times as 64-bit ones. */
const count = z.number().int().nonnegative().max(MOST_U32);
const positive = z.number().int().positive().max(MOST_U32);
const byteCount = z.number().int().nonnegative();
/* One check, not two: zod goes on to the second where the first has failed. */
const decimalU64 = z.string().refine(
  (text) => /^\d{1,20}$/.test(text) && BigInt(text) <= MOST_U64,
  "no number of 64 bits",
);
/** What the system allows in a path; control characters could end it early or write into a terminal. */
const filePath = z.string().min(1).max(4095).regex(/^\P{Cc}*$/u, "control characters in a path");

/** Roles are the lower-case names of SURGE_ROLES in csrc/include/surge.h. */
export const ROLES = [
  "token_embedding",
  "output_norm",
  "output",
  "attn_norm",
  "ffn_norm",
  "attn_q",
  "attn_k",
  "attn_v",
  "attn_out",
  "attn_q_norm",
  "attn_k_norm",
  "gdn_qkv",
  "gdn_z",
  "gdn_b",
  "gdn_a",
  "gdn_conv",
  "gdn_dt_bias",
  "gdn_decay",
  "gdn_norm",
  "gdn_out",
  "router",
  "expert_gate",
  "expert_up",
  "expert_down",
  "shared_router",
  "shared_gate",
  "shared_up",
  "shared_down",
  "mtp_projection",
  "mtp_embedding_norm",
  "mtp_hidden_norm",
  "mtp_norm",
  "mtp_embedding",
  "mtp_output",
] as const;
export type Role = typeof ROLES[number];

const Rope = z.object({
  kind: z.enum(["default", "yarn"]),
  theta: z.number().positive(),
  rotaryDim: positive,
  factor: z.number().positive(),
  originalContext: count,
  betaFast: z.number(),
  betaSlow: z.number(),
  /** Factor on cos and sin; 1 without YaRN, 0.1 ln(factor) + 1 with it unless the file says otherwise. */
  attentionFactor: z.number(),
});

/** Normalised configuration; counts in elements. Delta-net numbers are 0 in a family without one. */
export const ModelConfig = z.object({
  layers: positive,
  hidden: positive,
  vocab: positive,
  context: positive,
  heads: positive,
  kvHeads: positive,
  headDim: positive,
  attnGated: z.boolean(),
  layerKinds: z.array(z.enum(["attention", "gdn"])),
  gdnKeyHeads: count,
  gdnValueHeads: count,
  gdnKeyDim: count,
  gdnValueDim: count,
  gdnConv: count,
  /** grouped: value head h reads key head floor(h / r); tiled: h mod key heads. */
  gdnHeadOrder: z.enum(["grouped", "tiled"]),
  experts: positive,
  expertsUsed: positive,
  expertFf: positive,
  sharedFf: count,
  normTopk: z.boolean(),
  /** 1: an attention layer numbered `layers` predicts the token after the next (multi-token prediction). */
  mtpLayers: count.max(1).default(0),
  rmsEps: z.number().positive(),
  rope: Rope,
});
export type ModelConfig = z.infer<typeof ModelConfig>;

/** A file as it was when the manifest was made; a change is an error before any weight is used. */
export const ManifestFile = z.object({
  path: filePath,
  bytes: byteCount,
  mtimeNs: decimalU64,
  inode: decimalU64,
});
export type ManifestFile = z.infer<typeof ManifestFile>;

export const TensorScale = z.object({
  kind: z.enum(["block_128", "tensor"]),
  dtype: z.enum(["F32", "F16", "BF16"]),
  file: count,
  offset: byteCount,
  expertStride: byteCount,
  rowFirst: count,
  rows: positive,
  cols: positive,
});
export type TensorScale = z.infer<typeof TensorScale>;

/**
 * A run of rows of a matrix for one expert or several at equal distance (surge_tensor_desc). Vectors have one row.
 * dtype is the format's name as in csrc/quant ("Q4_K", "BF16", "F8_E4M3" …), name the tensor's name in its file.
 */
export const ManifestTensor = z.object({
  name: z.string(),
  role: z.enum(ROLES),
  layer: z.number().int().min(-1).max(0x7fffffff),
  dtype: z.string(),
  file: count,
  offset: byteCount,
  rowFirst: count,
  rows: positive,
  cols: positive,
  expertFirst: count,
  expertCount: positive,
  expertStride: byteCount,
  transform: z.enum(["none", "add_one", "neg_exp"]),
  scale: TensorScale.optional(),
});
export type ManifestTensor = z.infer<typeof ManifestTensor>;

/** Sampling defaults of the model itself (generation_config.json or GGUF general.sampling.*); absent: not stated. */
export const SamplingDefaults = z.object({
  temperature: z.number().optional(),
  topK: count.optional(),
  topP: z.number().optional(),
  minP: z.number().optional(),
  presencePenalty: z.number().optional(),
  repeatPenalty: z.number().optional(),
});
export type SamplingDefaults = z.infer<typeof SamplingDefaults>;

export const Manifest = z.object({
  schema: z.literal("surge.manifest/1"),
  /** The adapter that made it: "qwen35moe", "qwen3moe". */
  family: z.string(),
  name: z.string(),
  format: z.enum(["gguf", "safetensors"]),
  config: ModelConfig,
  files: z.array(ManifestFile).min(1),
  tensors: z.array(ManifestTensor).min(1),
  /** Index of the GGUF file whose metadata holds the tokenizer, or paths of tokenizer.json and its companions. */
  text: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("gguf"), file: count }),
    z.object({
      kind: z.literal("huggingface"),
      tokenizer: filePath,
      tokenizerConfig: filePath.optional(),
      chatTemplate: filePath.optional(),
    }),
  ]),
  stopTokens: z.array(count),
  sampling: SamplingDefaults,
  /** Tensors in the files that text inference does not use, by reason. */
  ignored: z.object({ vision: count, mtp: count, unknown: count }),
});
export type Manifest = z.infer<typeof Manifest>;
