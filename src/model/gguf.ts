/**
 * GGUF v2 and v3, single or split: metadata and the tensor list. The data section is never read.
 *
 *   magic "GGUF" | version u32 | tensors u64 | pairs u64 | pairs … | tensor infos … | padding | data
 *
 * Every count and length is checked against what the file can hold before anything is allocated. Source: the GGUF specification.
 */
import { basename, dirname, join } from "node:path";
import { SurgeError } from "../base/errors.ts";
import { dtypeOfId, tensorBytes } from "./dtypes.ts";
import { FileReader, HEADER_LIMIT_BYTES, statFile, withFile } from "./file_reader.ts";
import type { ManifestFile } from "./manifest.ts";
import { addTensor, checkRanges, LIMITS, type StoredTensor } from "./tensor_index.ts";
import { printableName, quoted } from "./untrusted_text.ts";

export type GgufValue = number | bigint | boolean | string | GgufValue[];
export type GgufMetadata = Map<string, GgufValue>;

export interface GgufModel {
  metadata: GgufMetadata;
  files: ManifestFile[];
  tensors: Map<string, StoredTensor>;
}

const TYPE = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
};
const SIZES: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const WINDOW_BYTES = 4 * 1024 * 1024;
const MAX_PAIRS = 1 << 16;
const MAX_ARRAY_DEPTH = 2;
/** Array elements in one header; a vocabulary of 248 320 tokens with its merges has three quarters of a million. */
const MAX_ELEMENTS = 1 << 23;
const MAX_SHARDS = 10_000;

/** Sequential little-endian reading through a window. */
class Cursor {
  position = 0;
  /** Array elements that may still come. */
  elements = MAX_ELEMENTS;
  #window: Buffer = Buffer.alloc(0);
  #start = 0;
  readonly reader: FileReader;

  constructor(reader: FileReader) {
    this.reader = reader;
  }

  /** The next `length` bytes. */
  take(length: number): Buffer {
    if (this.position + length > HEADER_LIMIT_BYTES) {
      throw new SurgeError(
        "data",
        `${this.reader.path} has a header of more than ${HEADER_LIMIT_BYTES} bytes; it is not a sound GGUF file.`,
      );
    }
    const at = this.position - this.#start;
    if (at + length > this.#window.length) {
      const want = Math.max(length, Math.min(WINDOW_BYTES, this.reader.size - this.position));
      this.#window = this.reader.read(this.position, want);
      this.#start = this.position;
    }
    const begin = this.position - this.#start;
    this.position += length;
    return this.#window.subarray(begin, begin + length);
  }

  u32(): number {
    return this.take(4).readUInt32LE(0);
  }

  u64(): number {
    const value = this.take(8).readBigUInt64LE(0);
    return value > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(value);
  }

  /** Steps over bytes without reading them. */
  skip(length: number): void {
    if (length > this.reader.size - this.position) {
      throw new SurgeError(
        "data",
        `${this.reader.path} is truncated: it ends at byte ${this.reader.size}, inside its header.`,
      );
    }
    this.position += length;
    if (this.position > this.#start + this.#window.length) {
      this.#window = Buffer.alloc(0);
      this.#start = this.position;
    }
  }

  string(limitBytes: number, what: string): string {
    const length = this.stringLength(limitBytes, what);
    return this.take(length).toString("utf8");
  }

  name(what: string): string {
    return printableName(this.string(LIMITS.nameBytes, what), this.reader.path, what);
  }

  stringLength(limitBytes: number, what: string): number {
    const length = this.u64();
    if (length > limitBytes || length > this.reader.size - this.position) {
      throw new SurgeError("data", `${this.reader.path}: ${what} claims a length of ${length} bytes.`);
    }
    return length;
  }
}

const STRING_LIMIT_BYTES = 64 * 1024 * 1024;

function readScalar(cursor: Cursor, type: number, key: string): GgufValue {
  if (type === TYPE.string) return cursor.string(STRING_LIMIT_BYTES, `metadata ${key}`);
  const bytes = cursor.take(SIZES[type]!);
  switch (type) {
    case TYPE.u8:
      return bytes.readUInt8(0);
    case TYPE.i8:
      return bytes.readInt8(0);
    case TYPE.u16:
      return bytes.readUInt16LE(0);
    case TYPE.i16:
      return bytes.readInt16LE(0);
    case TYPE.u32:
      return bytes.readUInt32LE(0);
    case TYPE.i32:
      return bytes.readInt32LE(0);
    case TYPE.f32:
      return bytes.readFloatLE(0);
    case TYPE.bool:
      return bytes.readUInt8(0) !== 0;
    case TYPE.u64:
      return bytes.readBigUInt64LE(0);
    case TYPE.i64:
      return bytes.readBigInt64LE(0);
    default:
      return bytes.readDoubleLE(0);
  }
}

function readValue(cursor: Cursor, type: number, options: { key: string; depth: number; keep: boolean }): GgufValue {
  const { key, depth, keep } = options;
  if (type !== TYPE.array) {
    if (type !== TYPE.string && SIZES[type] === undefined) {
      throw new SurgeError("data", `${cursor.reader.path}: metadata ${key} has the unknown type ${type}.`);
    }
    return readScalar(cursor, type, key);
  }
  const elementType = cursor.u32();
  const count = cursor.u64();
  const least = elementType === TYPE.string ? 8 : elementType === TYPE.array ? 12 : SIZES[elementType];
  if (least === undefined) {
    throw new SurgeError(
      "data",
      `${cursor.reader.path}: metadata ${key} is an array of the unknown type ${elementType}.`,
    );
  }
  cursor.elements -= count;
  if (depth >= MAX_ARRAY_DEPTH || cursor.elements < 0 || count * least > cursor.reader.size - cursor.position) {
    throw new SurgeError("data", `${cursor.reader.path}: metadata ${key} claims an array of ${count} elements.`);
  }
  if (!keep && elementType !== TYPE.array) {
    skipArray(cursor, { key, elementType, count });
    return [];
  }
  const values: GgufValue[] = [];
  const inner = { key, depth: depth + 1, keep };
  for (let i = 0; i < count; i++) values.push(readValue(cursor, elementType, inner));
  return values;
}

function skipArray(cursor: Cursor, array: { key: string; elementType: number; count: number }): void {
  if (array.elementType !== TYPE.string) return cursor.skip(array.count * SIZES[array.elementType]!);
  const what = `metadata ${array.key}`;
  for (let i = 0; i < array.count; i++) cursor.skip(cursor.stringLength(STRING_LIMIT_BYTES, what));
}

/** Large text tables, which only readGgufTokenizer wants. */
const TEXT_TABLES = /^tokenizer\.ggml\.(tokens|scores|token_type|merges|added_tokens)$/;

function readMetadata(cursor: Cursor, pairs: number, wantText: boolean): GgufMetadata {
  const metadata: GgufMetadata = new Map();
  for (let i = 0; i < pairs; i++) {
    const key = cursor.name(`the name of metadata entry ${i}`);
    if (metadata.has(key)) throw new SurgeError("data", `${cursor.reader.path}: metadata ${key} stands twice.`);
    const keep = wantText || !TEXT_TABLES.test(key);
    const value = readValue(cursor, cursor.u32(), { key, depth: 0, keep });
    if (keep) metadata.set(key, value);
  }
  return metadata;
}

function readTensorInfo(cursor: Cursor, index: number): { name: string; dims: number[]; type: number; offset: number } {
  const path = cursor.reader.path;
  const name = cursor.name(`the name of tensor ${index}`);
  const count = cursor.u32();
  if (count < 1 || count > LIMITS.dimensions) {
    throw new SurgeError("data", `${path}: tensor ${name} claims ${count} dimensions.`);
  }
  const dims = Array.from({ length: count }, () => cursor.u64());
  if (!Number.isSafeInteger(dims.reduce((product, dim) => product * dim, 1)) || dims.some((dim) => dim < 1)) {
    throw new SurgeError("data", `${path}: tensor ${name} claims the shape ${dims.join(" x ")}.`);
  }
  return { name, dims, type: cursor.u32(), offset: cursor.u64() };
}

function readHeader(cursor: Cursor): { tensors: number; pairs: number } {
  const path = cursor.reader.path;
  if (cursor.reader.size < 24) {
    throw new SurgeError("data", `${path} is too short to be a GGUF file (${cursor.reader.size} bytes).`);
  }
  if (cursor.take(4).toString("latin1") !== "GGUF") {
    throw new SurgeError("data", `${path} is not a GGUF file: it does not begin with "GGUF".`);
  }
  const version = cursor.u32();
  if (version === 0x02000000 || version === 0x03000000) {
    throw new SurgeError(
      "data",
      `${path} is a big-endian GGUF file, which is not supported; convert it again on a little-endian machine.`,
    );
  }
  if (version !== 2 && version !== 3) {
    throw new SurgeError("data", `${path} has GGUF version ${version}; versions 2 and 3 are supported.`);
  }
  const tensors = cursor.u64();
  const pairs = cursor.u64();
  if (tensors > LIMITS.tensors || pairs > MAX_PAIRS) {
    throw new SurgeError("data", `${path} claims ${tensors} tensors and ${pairs} metadata entries; it is damaged.`);
  }
  return { tensors, pairs };
}

interface Part {
  metadata: GgufMetadata;
  infos: ReturnType<typeof readTensorInfo>[];
  dataStart: number;
}

function readPart(path: string, wantText: boolean): Part {
  return withFile(path, (reader) => {
    const cursor = new Cursor(reader);
    const { tensors, pairs } = readHeader(cursor);
    const metadata = readMetadata(cursor, pairs, wantText);
    const infos = Array.from({ length: tensors }, (_, i) => readTensorInfo(cursor, i));
    const alignment = Number(metadata.get("general.alignment") ?? 32);
    if (!Number.isInteger(alignment) || alignment < 1 || alignment > 65536) {
      throw new SurgeError("data", `${path} claims an alignment of ${alignment} bytes.`);
    }
    for (const info of infos) {
      if (info.offset % alignment !== 0) {
        throw new SurgeError(
          "data",
          `${path}: tensor ${info.name} begins at ${info.offset}, which is not aligned to ${alignment} bytes.`,
        );
      }
    }
    return { metadata, infos, dataStart: Math.ceil(cursor.position / alignment) * alignment };
  });
}

function addPart(model: GgufModel, part: Part, path: string): void {
  const file = model.files.length;
  model.files.push(statFile(path));
  for (const info of part.infos) {
    const dtype = dtypeOfId(info.type);
    const shape = [...info.dims].reverse();
    const cols = info.dims[0]!;
    const rows = info.dims.slice(1).reduce((product, dim) => product * dim, 1);
    const bytes = dtype && tensorBytes(dtype, rows, cols);
    if (dtype !== undefined && bytes === undefined) {
      throw new SurgeError(
        "data",
        `${path}: tensor ${info.name} has rows of ${cols} values, no multiple of the ${dtype.blockElements} of ${dtype.name}.`,
      );
    }
    const tensor = {
      name: info.name,
      dtype: dtype?.name ?? `type ${info.type}`,
      shape,
      file,
      offset: part.dataStart + info.offset,
      bytes,
    };
    addTensor(model.tensors, tensor, path);
  }
}

const SHARD = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/** All parts of a split model, in order, given any one of them. */
export function shardPaths(path: string): string[] {
  const match = SHARD.exec(basename(path));
  if (match === null) return [path];
  const count = Number(match[3]);
  if (count < 1 || count > MAX_SHARDS) throw new SurgeError("data", `${path}: a split of ${count} files.`);
  return Array.from(
    { length: count },
    (_, i) => join(dirname(path), `${match[1]}-${String(i + 1).padStart(5, "0")}-of-${match[3]}.gguf`),
  );
}

/** A part says in its metadata which one it is; a renamed or mixed-up file is found out here. */
function checkSplit(metadata: GgufMetadata, shard: string, split: { index: number; count: number }): void {
  const count = metadata.get("split.count");
  const index = metadata.get("split.no");
  if (count !== undefined && Math.max(1, Number(count)) !== split.count) {
    throw new SurgeError(
      "data",
      `${shard} says it is one of ${quoted(count)} files, but its name says one of ${split.count}.`,
    );
  }
  if (split.count > 1 && index !== undefined && Number(index) !== split.index) {
    throw new SurgeError(
      "data",
      `${shard} says it is part ${Number(index) + 1} of its model, but its name says part ${split.index + 1}.`,
    );
  }
}

/** Metadata (of the first part) and tensors of a GGUF model; text tables are stepped over. */
export function readGguf(path: string): GgufModel {
  const paths = shardPaths(path);
  const model: GgufModel = { metadata: new Map(), files: [], tensors: new Map() };
  paths.forEach((shard, i) => {
    const part = readPart(shard, false);
    checkSplit(part.metadata, shard, { index: i, count: paths.length });
    if (i === 0) model.metadata = part.metadata;
    addPart(model, part, shard);
  });
  checkRanges(model.tensors, model.files);
  return model;
}

/** The metadata with its text tables: tokens, types, merges. */
export function readGgufTokenizer(path: string): GgufMetadata {
  return withFile(path, (reader) => {
    const cursor = new Cursor(reader);
    return readMetadata(cursor, readHeader(cursor).pairs, true);
  });
}
