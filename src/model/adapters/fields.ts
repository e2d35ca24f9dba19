/**
 * Reading configuration numbers with names in messages: `config.json` objects and GGUF metadata through one interface. A missing
 * number without a default is an error that names key and file; nothing is guessed.
 */
import { SurgeError } from "../../base/errors.ts";
import type { GgufValue } from "../gguf.ts";
import { quoted } from "../untrusted_text.ts";
import type { GgufSource, HuggingFaceSource } from "./adapter.ts";

/** Layers and experts that are believed; more would be a damaged file, and loops run over both. */
export const MOST_LAYERS = 4096;
export const MOST_EXPERTS = 65536;

export class Fields {
  readonly #get: (key: string) => unknown;
  readonly #where: string;

  constructor(where: string, get: (key: string) => unknown) {
    this.#where = where;
    this.#get = get;
  }

  raw(key: string): unknown {
    return this.#get(key);
  }

  has(key: string): boolean {
    const value = this.#get(key);
    return value !== undefined && value !== null;
  }

  number(key: string, otherwise?: number): number {
    const value = this.has(key) ? this.#get(key) : otherwise;
    const number = typeof value === "bigint" ? Number(value) : value;
    if (typeof number !== "number" || !Number.isFinite(number)) {
      throw new SurgeError("data", `${this.#where}: ${key} is ${value === undefined ? "missing" : "not a number"}.`);
    }
    return number;
  }

  /** A whole number from `least` (default 1) to `most` (default 2^32 - 1). */
  count(key: string, otherwise?: number, options: { least?: number; most?: number } = {}): number {
    const value = this.number(key, otherwise);
    if (!Number.isInteger(value) || value < (options.least ?? 1) || value > (options.most ?? 0xffffffff)) {
      throw new SurgeError("data", `${this.#where}: ${key} is ${value}, which cannot be.`);
    }
    return value;
  }

  /** A count that some files give per layer: the largest one (layers without attention say 0). */
  largestCount(key: string): number {
    const value = this.#get(key);
    if (!Array.isArray(value)) return this.count(key);
    const largest = value.reduce((most: number, each) => Math.max(most, Number(each)), 0);
    return new Fields(this.#where, () => largest).count(key);
  }

  flag(key: string, otherwise: boolean): boolean {
    const value = this.#get(key);
    return typeof value === "boolean" ? value : otherwise;
  }

  /** Fails when the model asks for something its family's code does not do. */
  refuse(key: string, unsupported: (value: unknown) => boolean): void {
    if (this.has(key) && unsupported(this.#get(key))) {
      throw new SurgeError(
        "data",
        `${this.#where}: ${key} is ${quoted(this.#get(key))}, which is not supported for this family.`,
      );
    }
  }

  text(key: string): string | undefined {
    const value = this.#get(key);
    return typeof value === "string" ? value : undefined;
  }
}

/** `config.json`, the nested text_config first. */
export function configFields(source: HuggingFaceSource): Fields {
  const nested = source.config["text_config"] as Record<string, unknown> | undefined;
  return new Fields(`${source.path}/config.json`, (key) => nested?.[key] ?? source.config[key]);
}

/** GGUF metadata under the architecture's prefix. */
export function metadataFields(source: GgufSource): Fields {
  const prefix = String(source.metadata.get("general.architecture"));
  return new Fields(source.path, (key): GgufValue | undefined => source.metadata.get(`${prefix}.${key}`));
}
