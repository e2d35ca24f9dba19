/**
 * What a manifest read from JSON must keep beyond its schema: indices that point somewhere, formats that somebody decodes, every tensor
 * that its configuration needs. Manifests made by adapters keep it by construction. Ranges and shapes are checked when files are mapped.
 */
import { SurgeError } from "../base/errors.ts";
import { DTYPES } from "./dtypes.ts";
import type { Manifest, ManifestTensor, Role } from "./manifest.ts";
import { printableName, quoted } from "./untrusted_text.ts";

const EXPERT_ROLES = ["expert_gate", "expert_up", "expert_down"] as const;
const LAYER_ROLES = ["attn_norm", "ffn_norm", "router"] as const;
const SHARED_ROLES = ["shared_router", "shared_gate", "shared_up", "shared_down"] as const;
const MTP_ROLES = ["mtp_projection", "mtp_embedding_norm", "mtp_hidden_norm", "mtp_norm"] as const;
const KIND_ROLES = {
  attention: ["attn_q", "attn_k", "attn_v", "attn_out", "attn_q_norm", "attn_k_norm"],
  gdn: ["gdn_qkv", "gdn_z", "gdn_b", "gdn_a", "gdn_conv", "gdn_dt_bias", "gdn_decay", "gdn_norm", "gdn_out"],
} as const;

/** Throws one sentence naming `path` and the first thing that is wrong. */
export function checkManifest(manifest: Manifest, path: string): void {
  const { files, tensors, text } = manifest;
  for (const tensor of tensors) checkTensor(tensor, manifest, path);
  if (text.kind === "gguf" && text.file >= files.length) {
    throw new SurgeError("data", `${path}: text names file ${text.file}, which is not listed.`);
  }
  checkComplete(manifest, path);
}

function checkTensor(tensor: ManifestTensor, { files, config }: Manifest, path: string): void {
  printableName(tensor.name, path, "the name of a tensor");
  const wrong = (what: string) => new SurgeError("data", `${path}: tensor ${tensor.name} ${what}.`);
  const file = Math.max(tensor.file, tensor.scale?.file ?? 0);
  if (file >= files.length) throw wrong(`names file ${file}, which is not listed`);
  if (!DTYPES.has(tensor.dtype)) throw wrong(`is stored as ${quoted(tensor.dtype)}, which is not supported`);
  const layers = config.layers + config.mtpLayers;
  if (tensor.layer >= layers) throw wrong(`belongs to layer ${tensor.layer} of ${layers}`);
  if (tensor.expertFirst + tensor.expertCount > config.experts) {
    throw wrong(`holds experts up to ${tensor.expertFirst + tensor.expertCount} of ${config.experts}`);
  }
}

/** Experts found so far by role and layer, as a count: overlapping runs are found when the matrices are put together. */
function countExperts(tensors: ManifestTensor[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { role, layer, expertCount } of tensors) {
    const key = `${role} ${layer}`;
    counts.set(key, (counts.get(key) ?? 0) + expertCount);
  }
  return counts;
}

function checkComplete({ config, tensors }: Manifest, path: string): void {
  const counts = countExperts(tensors);
  const need = (role: Role, layer: number, experts: number) => {
    const found = counts.get(`${role} ${layer}`) ?? 0;
    if (found >= experts) return;
    const what = found === 0 ? "no tensor" : `tensors for ${found} of ${experts} experts`;
    throw new SurgeError("data", `${path} has ${what} for ${role}${layer < 0 ? "" : ` of layer ${layer}`}.`);
  };
  for (const role of ["token_embedding", "output", "output_norm"] as const) need(role, -1, 1);
  const kinds = config.mtpLayers > 0 ? [...config.layerKinds, "attention" as const] : config.layerKinds;
  if (config.mtpLayers > 0) { for (const role of MTP_ROLES) need(role, config.layers, 1); }
  kinds.forEach((kind, layer) => {
    for (const role of [...LAYER_ROLES, ...KIND_ROLES[kind]]) need(role, layer, 1);
    if (config.sharedFf > 0) { for (const role of SHARED_ROLES) need(role, layer, 1); }
    for (const role of EXPERT_ROLES) need(role, layer, config.experts);
  });
}
