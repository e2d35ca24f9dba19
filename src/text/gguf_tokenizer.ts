/** A tokenizer.json rebuilt from GGUF metadata: the same vocabulary, merges, added tokens and pre-tokenizer. */
import { SurgeError } from "../base/errors.ts";
import type { TokenizerJson } from "./tokenizer.ts";

/** Pre-tokenizer expressions by `tokenizer.ggml.pre`. Sources: the tokenizer.json of Qwen3.5/3.6 and of Qwen2/Qwen3. */
const PRE_TOKENIZERS = new Map(Object.entries({
  qwen35:
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  qwen2:
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
}));

const TYPE = { control: 3, userDefined: 4, unused: 5 };

type Metadata = ReadonlyMap<string, unknown>;

function list<T extends string | number>(metadata: Metadata, key: string, type: "string" | "number"): T[] {
  const value = metadata.get(`tokenizer.ggml.${key}`);
  if (!Array.isArray(value) || !value.every((each) => typeof each === type)) {
    throw new SurgeError(
      "data",
      `The GGUF metadata tokenizer.ggml.${key} is missing or no list of ${type}s; the file has no usable tokenizer.`,
    );
  }
  return value as T[];
}

/** Reads tokenizer.ggml.*; fails on a model or pre-tokenizer that is not known, by name, and on lists that are not there. */
export function tokenizerJsonOfGguf(metadata: Metadata): TokenizerJson {
  const model = String(metadata.get("tokenizer.ggml.model"));
  const pre = String(metadata.get("tokenizer.ggml.pre"));
  const expression = PRE_TOKENIZERS.get(pre);
  if (model !== "gpt2") throw new SurgeError("data", `The tokenizer model ${model} is not supported (gpt2 is).`);
  if (expression === undefined) {
    throw new SurgeError(
      "data",
      `The pre-tokenizer ${pre} is not supported (${[...PRE_TOKENIZERS.keys()].join(" and ")} are).`,
    );
  }
  const tokens = list<string>(metadata, "tokens", "string");
  const types = list<number>(metadata, "token_type", "number");
  const vocab: Record<string, number> = {};
  const added: Array<Record<string, unknown>> = [];
  tokens.forEach((token, id) => {
    const type = types[id];
    if (type === TYPE.control || type === TYPE.userDefined) {
      const special = type === TYPE.control;
      added.push({ id, content: token, special, single_word: false, lstrip: false, rstrip: false, normalized: false });
    } else if (type !== TYPE.unused) vocab[token] = id;
  });
  return {
    version: "1.0",
    added_tokens: added,
    normalizer: { type: "NFC" },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: expression }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      vocab,
      merges: list<string>(metadata, "merges", "string"),
      byte_fallback: false,
      ignore_merges: false,
    },
  };
}
