/**
 * From stored tensors to the manifest's rows, with every shape checked. A binder knows what was used, so that what is left over can
 * be counted as vision, MTP or unknown. It knows nothing of a family: adapters tell it names.
 */
import { SurgeError } from "../../base/errors.ts";
import { type Dtype, DTYPES, tensorBytes } from "../dtypes.ts";
import type { Manifest, ManifestTensor, Role, TensorScale } from "../manifest.ts";
import type { StoredTensor } from "../tensor_index.ts";
import type { ModelSource } from "./adapter.ts";

export interface Place {
  role: Role;
  layer: number;
  /** Alternatives, the first that exists is taken. */
  names: string[];
}

export interface MatrixShape {
  rows: number;
  cols: number;
  transform?: ManifestTensor["transform"];
}

/** Names under which a layer's experts may be stored. */
export interface ExpertNames {
  gate: string[];
  up: string[];
  down: string[];
  /** Gate rows, then up rows, in one tensor. */
  gateUp: string;
  /** One tensor per expert and part. */
  single?: (expert: number, part: "gate" | "up" | "down") => string;
}

const SCALE_DTYPES = ["F32", "F16", "BF16"];
const MOST_MISSING = 10_000;

export class Binder {
  readonly tensors: ManifestTensor[] = [];
  readonly #source: ModelSource;
  readonly #used = new Set<string>();
  readonly #missing: string[] = [];

  constructor(source: ModelSource) {
    this.#source = source;
  }

  find(names: string[]): StoredTensor | undefined {
    const name = names.find((candidate) => this.#source.tensors.has(candidate));
    return name === undefined ? undefined : this.#source.tensors.get(name);
  }

  /** Remembers what is missing; when nearly everything is, it stops at once. */
  #miss(name: string): void {
    this.#missing.push(name);
    if (this.#missing.length >= MOST_MISSING) this.finish(() => "unknown");
  }

  #path(tensor: StoredTensor): string {
    return this.#source.files[tensor.file]!.path;
  }

  #refuseShape(tensor: StoredTensor, expected: string): never {
    throw new SurgeError(
      "data",
      `${this.#path(tensor)}: tensor ${tensor.name} has the shape ${
        tensor.shape.join(" x ")
      } where the configuration demands ${expected}.`,
    );
  }

  /** Names the tensor and its type when it cannot be decoded. */
  #dtype(tensor: StoredTensor): Dtype {
    const dtype = DTYPES.get(tensor.dtype);
    if (dtype !== undefined) return dtype;
    throw new SurgeError(
      "data",
      `${this.#path(tensor)}: tensor ${tensor.name} is stored as ${tensor.dtype}, which is not supported.`,
    );
  }

  /** Bytes of one row. */
  #rowBytes(tensor: StoredTensor, cols: number): number {
    const bytes = tensorBytes(this.#dtype(tensor), 1, cols);
    if (bytes === undefined) this.#refuseShape(tensor, `rows of ${cols} values in whole blocks of ${tensor.dtype}`);
    return bytes;
  }

  /** A matrix or vector (one row); ones in the stored shape do not matter. */
  matrix(place: Place, shape: MatrixShape): void {
    const tensor = this.find(place.names);
    if (tensor === undefined) {
      this.#miss(place.names[0]!);
      return;
    }
    this.#dtype(tensor);
    const flat = (dims: number[]) => dims.filter((dim) => dim !== 1).join(" x ") || "1";
    if (flat(tensor.shape) !== flat([shape.rows, shape.cols])) {
      this.#refuseShape(tensor, flat([shape.rows, shape.cols]));
    }
    this.#add(tensor, place, { ...shape, rowOffset: 0, expertFirst: 0, expertCount: 1, storedRows: shape.rows });
  }

  #add(
    tensor: StoredTensor,
    place: Place,
    run: MatrixShape & { rowOffset: number; expertFirst: number; expertCount: number; storedRows: number },
  ): void {
    const rowBytes = this.#rowBytes(tensor, run.cols);
    const scale = this.#scale(tensor, run);
    this.#used.add(tensor.name);
    this.tensors.push({
      name: tensor.name,
      role: place.role,
      layer: place.layer,
      dtype: tensor.dtype,
      file: tensor.file,
      offset: tensor.offset + run.rowOffset * rowBytes,
      rowFirst: 0,
      rows: run.rows,
      cols: run.cols,
      expertFirst: run.expertFirst,
      expertCount: run.expertCount,
      expertStride: run.storedRows * rowBytes,
      transform: run.transform ?? "none",
      ...(scale === undefined ? {} : { scale }),
    });
  }

  /** FP8 block scales (`….weight_scale_inv`), or the one scale of an NVFP4 matrix (`….scale`). */
  #scale(
    tensor: StoredTensor,
    run: { rowOffset: number; cols: number; storedRows: number; expertCount: number },
  ): TensorScale | undefined {
    const base = tensor.name.replace(/\.weight$/, "");
    const block = this.#source.tensors.get(`${tensor.name}_scale_inv`);
    const single = this.#source.tensors.get(`${base}.scale`);
    const found = tensor.dtype === "F8_E4M3" ? block : tensor.dtype === "NVFP4" ? single : undefined;
    if (found === undefined) {
      if (tensor.dtype !== "F8_E4M3") return undefined;
      throw new SurgeError(
        "data",
        `${this.#path(tensor)}: tensor ${tensor.name} is FP8 and its ${tensor.name}_scale_inv is missing.`,
      );
    }
    if (!SCALE_DTYPES.includes(found.dtype)) {
      throw new SurgeError(
        "data",
        `${this.#path(found)}: tensor ${found.name} has ${found.dtype}; scales must be F32, F16 or BF16.`,
      );
    }
    this.#used.add(found.name);
    const rows = found === single ? 1 : Math.ceil(run.storedRows / 128);
    const cols = found === single ? 1 : Math.ceil(run.cols / 128);
    const elements = found.shape.reduce((product, dim) => product * dim, 1);
    if (elements !== rows * cols * run.expertCount) this.#refuseShape(found, `${rows} x ${cols}`);
    return {
      kind: found === single ? "tensor" : "block_128",
      dtype: found.dtype as TensorScale["dtype"],
      file: found.file,
      offset: found.offset,
      expertStride: rows * cols * (found.dtype === "F32" ? 4 : 2),
      rowFirst: run.rowOffset,
      rows,
      cols,
    };
  }

  /** One part of a layer's experts: stacked, fused with its sibling, or one tensor per expert. */
  experts(layer: number, names: ExpertNames, shape: { experts: number; ff: number; hidden: number }): void {
    for (const part of ["gate", "up", "down"] as const) {
      const place: Place = { role: `expert_${part}`, layer, names: names[part] };
      const [rows, cols] = part === "down" ? [shape.hidden, shape.ff] : [shape.ff, shape.hidden];
      const stacked = this.find(names[part]);
      const fused = part === "down" ? undefined : this.find([names.gateUp]);
      if (stacked !== undefined) {
        this.#stack(stacked, place, { rows, cols, experts: shape.experts, storedRows: rows, rowOffset: 0 });
      } else if (fused !== undefined) {
        const rowOffset = part === "gate" ? 0 : rows;
        this.#stack(fused, place, { rows, cols, experts: shape.experts, storedRows: 2 * rows, rowOffset });
      } else this.#singles(place, names, { part, rows, cols, experts: shape.experts });
    }
  }

  #stack(
    tensor: StoredTensor,
    place: Place,
    run: { rows: number; cols: number; experts: number; storedRows: number; rowOffset: number },
  ): void {
    this.#dtype(tensor);
    if (tensor.shape.join() !== [run.experts, run.storedRows, run.cols].join()) {
      this.#refuseShape(tensor, [run.experts, run.storedRows, run.cols].join(" x "));
    }
    this.#add(tensor, place, { ...run, expertFirst: 0, expertCount: run.experts });
  }

  #singles(
    place: Place,
    names: ExpertNames,
    run: { part: "gate" | "up" | "down"; rows: number; cols: number; experts: number },
  ): void {
    for (let expert = 0; expert < run.experts; expert++) {
      const name = names.single?.(expert, run.part) ?? names[run.part][0]!;
      const tensor = this.find([name]);
      if (tensor === undefined) {
        this.#miss(name);
        if (names.single === undefined) return;
        continue;
      }
      this.#dtype(tensor);
      if (tensor.shape.join() !== [run.rows, run.cols].join()) this.#refuseShape(tensor, `${run.rows} x ${run.cols}`);
      this.#add(tensor, place, { ...run, rowOffset: 0, expertFirst: expert, expertCount: 1, storedRows: run.rows });
    }
  }

  /** Fails when anything was missing; otherwise what was not used, by reason. */
  finish(classify: (name: string) => "vision" | "mtp" | "unknown"): Manifest["ignored"] {
    if (this.#missing.length > 0) {
      const shown = this.#missing.slice(0, 3).join(", ");
      const more = this.#missing.length > 3 ? ` and ${this.#missing.length - 3} more` : "";
      throw new SurgeError(
        "data",
        `${this.#source.path} lacks tensor ${shown}${more}; the file is incomplete or of another model.`,
      );
    }
    const ignored = { vision: 0, mtp: 0, unknown: 0 };
    for (const name of this.#source.tensors.keys()) {
      if (!this.#used.has(name)) ignored[classify(name)]++;
    }
    return ignored;
  }
}
