/** Rotary embedding settings from config.json (rope_parameters, rope_scaling, or flat) and from GGUF metadata; default and YaRN. */
import { SurgeError } from "../../base/errors.ts";
import type { ModelConfig } from "../manifest.ts";
import { quoted } from "../untrusted_text.ts";
import { Fields } from "./fields.ts";

type Rope = ModelConfig["rope"];

function make(
  f: { kind: string; where: string; theta: number; rotaryDim: number; scaling: Fields; keys: Record<string, string> },
): Rope {
  const plain: Rope = {
    kind: "default",
    theta: f.theta,
    rotaryDim: f.rotaryDim,
    factor: 1,
    originalContext: 0,
    betaFast: 32,
    betaSlow: 1,
    attentionFactor: 1,
  };
  if (f.kind === "default" || f.kind === "none") return plain;
  if (f.kind !== "yarn") {
    throw new SurgeError(
      "data",
      `${f.where}: rope scaling of type ${quoted(f.kind)} is not supported (default and yarn are).`,
    );
  }
  const factor = f.scaling.number(f.keys["factor"]!);
  return {
    ...plain,
    kind: "yarn",
    factor,
    originalContext: f.scaling.count(f.keys["original"]!),
    betaFast: f.scaling.number(f.keys["fast"]!, 32),
    betaSlow: f.scaling.number(f.keys["slow"]!, 1),
    /* 0.1 ln(s) + 1, the value of the YaRN paper (arXiv 2309.00071, section 3.4). */
    attentionFactor: f.scaling.number(f.keys["attention"]!, factor > 1 ? 0.1 * Math.log(factor) + 1 : 1),
  };
}

export function ropeOfConfig(
  config: Fields,
  where: string,
  headDim: number,
  defaults: { theta: number; partial: number },
): Rope {
  const scaling = (config.raw("rope_parameters") ?? config.raw("rope_scaling") ?? {}) as Record<string, unknown>;
  const inner = new Fields(where, (key) => scaling[key] ?? config.raw(key));
  const own = new Fields(where, (key) => scaling[key]);
  const partial = inner.number("partial_rotary_factor", defaults.partial);
  return make({
    kind: own.text("rope_type") ?? own.text("type") ?? "default",
    where,
    theta: inner.number("rope_theta", defaults.theta),
    rotaryDim: Math.trunc(headDim * partial),
    scaling: own,
    keys: {
      factor: "factor",
      original: "original_max_position_embeddings",
      fast: "beta_fast",
      slow: "beta_slow",
      attention: "attention_factor",
    },
  });
}

export function ropeOfMetadata(meta: Fields, where: string, headDim: number): Rope {
  /* GGUF writers store the factor on top of ggml's own 0.1 ln(s) + 1 as attn_factor; files of this family leave it out. */
  return make({
    kind: meta.text("rope.scaling.type") ?? "default",
    where,
    theta: meta.number("rope.freq_base", 10000),
    rotaryDim: meta.count("rope.dimension_count", headDim),
    scaling: meta,
    keys: {
      factor: "rope.scaling.factor",
      original: "rope.scaling.original_context_length",
      fast: "rope.scaling.yarn_beta_fast",
      slow: "rope.scaling.yarn_beta_slow",
      attention: "rope.scaling.yarn_attn_factor",
    },
  });
}
