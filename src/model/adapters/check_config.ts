/**
 * Relations between numbers of a configuration that every family keeps; a file that breaks one is damaged or of another model.
 * Single numbers are checked where they are read (fields.ts).
 */
import { SurgeError } from "../../base/errors.ts";
import type { ModelConfig } from "../manifest.ts";

/** Throws naming `path` and the relation that does not hold. */
export function checkConfig(config: ModelConfig, path: string): void {
  const relations: Array<[boolean, string]> = [
    [config.layerKinds.length === config.layers, `${config.layerKinds.length} layer kinds for ${config.layers} layers`],
    [config.heads % config.kvHeads === 0, `${config.heads} query heads over ${config.kvHeads} key heads`],
    [config.expertsUsed <= config.experts, `${config.expertsUsed} experts used of ${config.experts}`],
    [
      config.rope.rotaryDim <= config.headDim && config.rope.rotaryDim % 2 === 0,
      `${config.rope.rotaryDim} rotary dimensions of ${config.headDim}`,
    ],
    [
      config.gdnKeyHeads === 0 || config.gdnValueDim > 0 && config.gdnValueHeads % config.gdnKeyHeads === 0,
      `${config.gdnValueHeads} value heads of ${config.gdnValueDim} over ${config.gdnKeyHeads} key heads in the delta net`,
    ],
    [config.rmsEps > 0, `an epsilon of ${config.rmsEps} in the norms`],
    [
      config.rope.theta > 0 && config.rope.factor > 0,
      `a rope base of ${config.rope.theta}, factor ${config.rope.factor}`,
    ],
  ];
  const broken = relations.find(([holds]) => !holds);
  if (broken !== undefined) {
    throw new SurgeError("data", `${path} describes a model with ${broken[1]}, which cannot be.`);
  }
}
