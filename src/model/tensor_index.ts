/**
 * Tensors as their files list them, whatever the container: name, format, row-major shape, byte range. Checks that ranges lie inside
 * their files and do not overlap. Knows nothing of what a tensor is for.
 */
import { SurgeError } from "../base/errors.ts";
import type { ManifestFile } from "./manifest.ts";

export interface StoredTensor {
  name: string;
  /** Name of the format, or of a type that we do not decode ("type 36", "I64"). */
  dtype: string;
  /** Outermost dimension first. */
  shape: number[];
  file: number;
  offset: number;
  /** Undefined where the format is unknown. */
  bytes: number | undefined;
}

export const LIMITS = { tensors: 1 << 20, dimensions: 8, nameBytes: 1024 } as const;

/** Adds a tensor; a second one of the same name is an error. */
export function addTensor(tensors: Map<string, StoredTensor>, tensor: StoredTensor, path: string): void {
  if (tensors.has(tensor.name)) throw new SurgeError("data", `${path}: tensor ${tensor.name} is listed twice.`);
  tensors.set(tensor.name, tensor);
}

/** Every range inside its file, none overlapping another. */
export function checkRanges(tensors: Map<string, StoredTensor>, files: ManifestFile[]): void {
  /* An empty tensor may share its offset with the next one, so it goes first. */
  const size = (tensor: StoredTensor) => tensor.bytes ?? 0;
  const sorted = [...tensors.values()].sort((a, b) => a.file - b.file || a.offset - b.offset || size(a) - size(b));
  sorted.forEach((tensor, i) => {
    const file = files[tensor.file]!;
    const end = tensor.offset + size(tensor);
    if (!Number.isSafeInteger(end) || end > file.bytes) {
      throw new SurgeError(
        "data",
        `${file.path}: tensor ${tensor.name} ends at byte ${end}, past the end of the file (${file.bytes}); the file is truncated.`,
      );
    }
    const next = sorted[i + 1];
    if (next !== undefined && next.file === tensor.file && size(tensor) > 0 && end > next.offset) {
      throw new SurgeError("data", `${file.path}: tensors ${tensor.name} and ${next.name} overlap.`);
    }
  });
}
