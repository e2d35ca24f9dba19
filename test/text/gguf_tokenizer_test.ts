/** Tokenizers rebuilt from GGUF metadata: other ids than from tokenizer.json would show here, and damaged metadata that crashes. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { readGgufTokenizer } from "../../src/model/gguf.ts";
import { tokenizerJsonOfGguf } from "../../src/text/gguf_tokenizer.ts";
import { type AddedToken, Tokenizer, type TokenizerJson } from "../../src/text/tokenizer.ts";

const GOLDEN = join(import.meta.dir, "../golden/text/tokenizer");
const DEMO = join(import.meta.dir, "../../models/demo");

interface Vectors {
  encode: Array<{ text: string; ids: number[]; ids_special_as_text?: number[]; ids_all_as_text?: number[] }>;
}

interface BpeJson {
  added_tokens: AddedToken[];
  model: { vocab: Record<string, number>; merges: Array<string | [string, string]> };
}

function vectorsOf(folder: string): Vectors["encode"] {
  return (JSON.parse(readFileSync(join(GOLDEN, folder, "vectors.json"), "utf8")) as Vectors).encode;
}

/** What a converter writes of a tokenizer.json; rows up to `size` are padding. */
function metadataOf(json: BpeJson, size: number): Map<string, unknown> {
  const tokens = Array.from({ length: size }, (_, id) => `[PAD${id}]`);
  const types = tokens.map(() => 5);
  for (const [token, id] of Object.entries(json.model.vocab)) [tokens[id], types[id]] = [token, 1];
  for (const { id, content, special } of json.added_tokens) [tokens[id], types[id]] = [content, special ? 3 : 4];
  return new Map<string, unknown>([
    ["tokenizer.ggml.model", "gpt2"],
    ["tokenizer.ggml.pre", "qwen35"],
    ["tokenizer.ggml.tokens", tokens],
    ["tokenizer.ggml.token_type", types],
    ["tokenizer.ggml.merges", json.model.merges.map((merge) => Array.isArray(merge) ? merge.join(" ") : merge)],
  ]);
}

test("the whole Qwen3.6 vocabulary, padding and all, gives the reference's ids", () => {
  const bytes = gunzipSync(readFileSync(join(GOLDEN, "qwen36/tokenizer.json.gz")));
  const tokenizer = new Tokenizer(
    tokenizerJsonOfGguf(metadataOf(JSON.parse(bytes.toString("utf8")) as BpeJson, 248_320)),
  );
  for (const { text, ids, ids_special_as_text, ids_all_as_text } of vectorsOf("qwen36")) {
    expect(tokenizer.encode(text, "all")).toEqual(ids);
    expect(tokenizer.encode(text, "text")).toEqual(ids_special_as_text ?? ids);
    expect(tokenizer.encode(text, "none")).toEqual(ids_all_as_text ?? ids);
  }
  expect(tokenizer.bytes(248_319)).toHaveLength(0);
});

test("the demo model's GGUF gives the ids of its tokenizer.json", () => {
  const json = JSON.parse(readFileSync(join(DEMO, "hf/tokenizer.json"), "utf8")) as TokenizerJson;
  const fromJson = new Tokenizer(json);
  const fromGguf = new Tokenizer(tokenizerJsonOfGguf(readGgufTokenizer(join(DEMO, "demo-q4_k.gguf"))));
  for (const { text } of vectorsOf("small")) {
    for (const added of ["all", "text", "none"] as const) {
      expect(fromGguf.encode(text, added)).toEqual(fromJson.encode(text, added));
    }
  }
});

const WHOLE = { model: "gpt2", pre: "qwen35", tokens: ["a", "b", "ab"], token_type: [1, 1, 1], merges: ["a b"] };

test.each([
  ["another model, by name", { model: "llama" }, /llama/],
  ["another pre-tokenizer, by name", { pre: "falcon" }, /falcon/],
  ["a name that objects have by themselves", { pre: "constructor" }, /constructor/],
  ["no tokens", { tokens: undefined }, /tokenizer\.ggml\.tokens/],
  ["tokens that are numbers", { tokens: [1, 2] }, /tokenizer\.ggml\.tokens/],
  ["merges that are numbers", { merges: [3] }, /tokenizer\.ggml\.merges/],
])("damaged metadata ends in one sentence: %s", (_what, change, message) => {
  const metadata = new Map<string, unknown>(
    Object.entries({ ...WHOLE, ...change }).map(([key, value]) => [`tokenizer.ggml.${key}`, value]),
  );
  expect(() => new Tokenizer(tokenizerJsonOfGguf(metadata))).toThrow(message);
});
