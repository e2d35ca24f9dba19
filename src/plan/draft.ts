/** What a plan's way of drafting means for the engine: rows that may be taken back, and whether the prediction layer is used. */
import { SurgeError } from "../base/errors.ts";
import type { Manifest } from "../model/manifest.ts";
import type { Plan } from "./schema.ts";

/** Rows of a sequence in one step that may turn out to be wrong. */
export function draftRows({ draft, draftTokens }: Pick<Plan, "draft" | "draftTokens">): number {
  return draft === "none" ? 0 : draftTokens;
}

/** The manifest as far as the plan uses it: a prediction layer that drafts nothing is neither mapped nor computed. */
export function plannedManifest(manifest: Manifest, { draft }: Pick<Plan, "draft">): Manifest {
  const { config } = manifest;
  if (draft === "mtp") {
    if (config.mtpLayers > 0) return manifest;
    throw new SurgeError("usage", `${manifest.name} has no prediction layer to draft with; --draft lookup needs none.`);
  }
  const tensors = manifest.tensors.filter((tensor) => tensor.layer < config.layers);
  return { ...manifest, config: { ...config, mtpLayers: 0 }, tensors };
}
