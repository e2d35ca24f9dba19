/**
 * Relations between numbers of a configuration that every family keeps; a file that breaks one is damaged or of another model.
 * Single numbers are checked where they are read (fields.ts).
 */
import { SurgeError } from "../../base/errors.ts";
import type { ModelConfig } from "../manifest.ts";

/** The engine computes in float32: there the number must be neither 0 nor infinite. */
function inFloatRange(value: number): boolean {
  const float = Math.fround(value);
  return float > 0 && Number.isFinite(float);
}

/** Throws naming `path` and the relation that does not hold. */
export function checkConfig(config: ModelConfig, path: string): void {
  const { rope } = config;
  const relations: Array<[boolean, string]> = [
    [config.layerKinds.length === config.layers, `${config.layerKinds.length} layer kinds for ${config.layers} layers`],
    [config.heads % config.kvHeads === 0, `${config.heads} query heads over ${config.kvHeads} key heads`],
    [config.expertsUsed <= config.experts, `${config.expertsUsed} experts used of ${config.experts}`],
    [
      rope.rotaryDim <= config.headDim && rope.rotaryDim % 2 === 0,
      `${rope.rotaryDim} rotary dimensions of ${config.headDim}`,
    ],
    [
      config.gdnKeyHeads === 0 || config.gdnValueDim > 0 && config.gdnValueHeads % config.gdnKeyHeads === 0,
      `${config.gdnValueHeads} value heads of ${config.gdnValueDim} over ${config.gdnKeyHeads} key heads in the delta net`,
    ],
    [inFloatRange(config.rmsEps) && config.rmsEps < 1, `an epsilon of ${config.rmsEps} in the norms`],
    [inFloatRange(rope.theta) && rope.theta > 1, `a rope base of ${rope.theta}`],
    [inFloatRange(rope.factor) && inFloatRange(rope.attentionFactor), `a rope factor of ${rope.factor}`],
    [rope.kind !== "yarn" || rope.originalContext > 0, `YaRN over an original context of ${rope.originalContext}`],
    [
      rope.kind !== "yarn" || inFloatRange(rope.betaSlow) && inFloatRange(rope.betaFast),
      `YaRN betas of ${rope.betaFast} and ${rope.betaSlow}`,
    ],
  ];
  const broken = relations.find(([holds]) => !holds);
  if (broken !== undefined) {
    throw new SurgeError("data", `${path} describes a model with ${broken[1]}, which cannot be.`);
  }
}
