/**
 * Fuzz target of the file readers: good headers from corpus/, damaged at random, written to one temporary file and read. Only a
 * SurgeError may come out, soon, and without an allocation of what the file merely claims. A seed makes a run again.
 */
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { SurgeError } from "../../src/base/errors.ts";
import { readGguf, readGgufTokenizer } from "../../src/model/gguf.ts";
import { readModel } from "../../src/model/source.ts";
import { temporaryFolder } from "../fixtures/model_files.ts";

const CORPUS = join(import.meta.dir, "corpus");
const SLOW_MS = 2000;
const MOST_GROWTH_BYTES = 1 << 30;
/** Sparse room behind a header, so that tensor ranges stay inside the file and reading goes on to the adapters. */
const DATA_BYTES = 1 << 20;

/** mulberry32: small, seeded, the same everywhere. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor(((t ^ (t >>> 14)) >>> 0) / 2 ** 32 * below);
  };
}

type Random = ReturnType<typeof randomOf>;

const INTERESTING = [
  0n,
  1n,
  7n,
  0xffn,
  0x7fffn,
  0xffffn,
  0x7fffffffn,
  0xffffffffn,
  1n << 32n,
  1n << 53n,
  (1n << 64n) - 1n,
];
const JSON_PIECES = [
  "{",
  "}",
  "[",
  "]",
  '"',
  ",",
  ":",
  "-1",
  "1e308",
  "9007199254740993",
  "null",
  '"__proto__":',
  "\\u0000",
];

function splice(bytes: Buffer, random: Random, insert: Uint8Array): Buffer {
  const at = random(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, at), insert, bytes.subarray(at + random(12))]);
}

function mutateOnce(bytes: Buffer, random: Random): Buffer {
  if (bytes.length < 16) return Buffer.concat([bytes, Buffer.alloc(16, random(256))]);
  const copy = Buffer.from(bytes);
  const at = random(copy.length - 8);
  switch (random(7)) {
    case 0:
      copy[at] = random(256);
      return copy;
    case 1:
      copy[at] = copy[at]! ^ (1 << random(8));
      return copy;
    case 2:
      copy.writeBigUInt64LE(INTERESTING[random(INTERESTING.length)]!, at);
      return copy;
    case 3:
      copy.writeUInt32LE(Number(INTERESTING[random(8)]!), at);
      return copy;
    case 4:
      return copy.subarray(0, random(copy.length));
    case 5:
      return splice(copy, random, copy.subarray(at, at + random(64)));
    default:
      return splice(copy, random, Buffer.from(JSON_PIECES[random(JSON_PIECES.length)]!));
  }
}

export function mutate(bytes: Buffer, random: Random): Buffer {
  let result = bytes;
  for (let i = random(4); i >= 0; i--) result = mutateOnce(result, random);
  return result;
}

/** A JSON header after damage: its length is made right half of the time, or nothing behind it would ever be reached. */
function reframe(bytes: Buffer, random: Random): Buffer {
  if (bytes.length < 8 || random(2) === 0) return bytes;
  const copy = Buffer.from(bytes);
  copy.writeBigUInt64LE(BigInt(copy.length - 8));
  return copy;
}

interface Sample {
  /** Weights and configuration of the same name belong together. */
  name: string;
  bytes: Buffer;
}

interface Target {
  name: string;
  corpus: Sample[];
  /** Writes the bytes, made from the sample of that name, where the reader wants them, then reads. */
  run(bytes: Buffer, name: string, random: Random): void;
}

function corpusOf(kind: string): Sample[] {
  const folder = join(CORPUS, kind);
  return readdirSync(folder).sort().map((name) => ({
    name: basename(name, ".json"),
    bytes: readFileSync(join(folder, name)),
  }));
}

function write(path: string, bytes: Buffer, random: Random): void {
  writeFileSync(path, bytes);
  if (random(3) > 0) truncateSync(path, bytes.length + DATA_BYTES);
}

/** What readModel makes of the GGUF headers, as JSON: made here, so that it cannot fall behind the schema. */
function manifestCorpus(folder: string): Sample[] {
  return ["qwen35moe", "qwen3moe"].map((name) => {
    const path = join(folder, `${name}.gguf`);
    copyFileSync(join(CORPUS, "gguf", name), path);
    truncateSync(path, statSync(path).size + DATA_BYTES);
    return { name, bytes: Buffer.from(JSON.stringify(readModel(path))) };
  });
}

function targets(folder: string): Target[] {
  const gguf = join(folder, "model.gguf");
  const weights = join(folder, "model.safetensors");
  const config = join(folder, "config.json");
  const manifest = join(folder, "manifest.json");
  return [
    {
      name: "gguf",
      corpus: corpusOf("gguf"),
      run(bytes, _name, random) {
        write(gguf, bytes, random);
        attempt(() => readGguf(gguf));
        attempt(() => readGgufTokenizer(gguf));
        readModel(gguf);
      },
    },
    {
      name: "safetensors",
      corpus: corpusOf("safetensors"),
      run(bytes, name, random) {
        copyFileSync(join(CORPUS, `config/${name}.json`), config);
        write(weights, reframe(bytes, random), random);
        readModel(folder);
      },
    },
    {
      name: "config",
      corpus: corpusOf("config"),
      run(bytes, name) {
        writeFileSync(config, bytes);
        copyFileSync(join(CORPUS, `safetensors/${name}`), weights);
        truncateSync(weights, statSync(weights).size + DATA_BYTES);
        readModel(folder);
      },
    },
    {
      name: "manifest",
      corpus: manifestCorpus(folder),
      run(bytes) {
        writeFileSync(manifest, bytes);
        readModel(manifest);
      },
    },
  ];
}

/** Runs; a SurgeError is a refusal, anything else goes on. */
function attempt(read: () => void): "read" | "refused" {
  try {
    read();
    return "read";
  } catch (thrown) {
    if (thrown instanceof SurgeError && !thrown.message.includes("\n")) return "refused";
    throw thrown;
  }
}

export interface FuzzReport {
  runs: number;
  read: number;
  refused: number;
}

/** Fuzzes for `seconds`; throws with the seed and the run's number on the first finding. */
export function fuzzReaders(seed: number, seconds: number): FuzzReport {
  const folder = join(temporaryFolder(), "model");
  mkdirSync(folder);
  const report: FuzzReport = { runs: 0, read: 0, refused: 0 };
  const list = targets(folder);
  const end = performance.now() + seconds * 1000;
  const before = process.memoryUsage.rss();
  while (performance.now() < end) {
    const random = randomOf(seed + report.runs);
    const target = list[report.runs % list.length]!;
    const begin = performance.now();
    const where = `${target.name}, seed ${seed + report.runs}`;
    try {
      const sample = target.corpus[random(target.corpus.length)]!;
      report[attempt(() => target.run(mutate(sample.bytes, random), sample.name, random))]++;
    } catch (thrown) {
      throw new Error(`fuzz finding (${where}, kept in ${folder}): ${String(thrown)}`, { cause: thrown });
    }
    const tookMs = performance.now() - begin;
    if (tookMs > SLOW_MS) {
      throw new Error(`fuzz finding (${where}, kept in ${folder}): it took ${tookMs.toFixed(0)} ms`);
    }
    const grown = process.memoryUsage.rss() - before;
    if (grown > MOST_GROWTH_BYTES) throw new Error(`fuzz finding (${where}, kept in ${folder}): ${grown} bytes more`);
    report.runs++;
  }
  rmSync(join(folder, ".."), { recursive: true });
  return report;
}
