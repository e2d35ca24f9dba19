/**
 * What an adapter is: one model family's knowledge of names, shapes and transforms, from files to a manifest. Adding a family means
 * adding a file here and a line in index.ts; nothing else in the tree may know family names.
 */
import type { GgufMetadata } from "../gguf.ts";
import type { Manifest, ManifestFile } from "../manifest.ts";
import type { StoredTensor } from "../tensor_index.ts";

interface Stored {
  /** For messages: the GGUF file or the folder. */
  path: string;
  files: ManifestFile[];
  tensors: Map<string, StoredTensor>;
}

export interface GgufSource extends Stored {
  format: "gguf";
  metadata: GgufMetadata;
}

export interface HuggingFaceSource extends Stored {
  format: "safetensors";
  config: Record<string, unknown>;
  generation: Record<string, unknown>;
}

export type ModelSource = GgufSource | HuggingFaceSource;

export interface Adapter {
  family: string;
  matches(source: ModelSource): boolean;
  /** Throws a SurgeError that names the file and the thing when the files do not hold what the family needs. */
  build(source: ModelSource): Pick<Manifest, "config" | "tensors" | "ignored">;
}
