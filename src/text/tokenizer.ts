/**
 * Text to ids and back, for byte-level BPE vocabularies. Merging and pre-tokenising are @huggingface/tokenizers'; finding added
 * tokens is done here, because which of them count depends on whose text it is: the template's may, a person's may not.
 */
import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { z } from "zod";
import { messageOf, SurgeError } from "../base/errors.ts";

/** Far above any vocabulary; ids index arrays. */
const ID_MAX = 1 << 24;
const Id = z.number().int().min(0).max(ID_MAX);
const AddedToken = z.object({ id: Id, content: z.string().min(1), special: z.boolean() });

/** What is needed of a tokenizer.json; the rest goes to the library as it is. */
const TokenizerJson = z.looseObject({
  added_tokens: z.array(z.looseObject(AddedToken.shape)).default([]),
  model: z.looseObject({ type: z.literal("BPE"), vocab: z.record(z.string(), Id) }),
});
export type TokenizerJson = Record<string, unknown>;
export type AddedToken = z.infer<typeof AddedToken>;

/** all: added tokens in the text count. text: those marked special are plain text. none: all are plain text. */
export type AddedTokens = "all" | "text" | "none";

/** The printable stand-ins of byte-level BPE, byte by byte (GPT-2's table: printable Latin-1 stays, the rest follows from U+0100). */
function byteCharacters(): string[] {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(printable(b) ? b : next++));
}

const BYTE_OF = new Map(byteCharacters().map((character, byte) => [character, byte]));
const ENCODER = new TextEncoder();

export class Tokenizer {
  readonly added: AddedToken[];
  readonly #plain: HuggingFaceTokenizer;
  readonly #tokens: string[] = [];
  readonly #addedById: ReadonlyMap<number, AddedToken>;
  readonly #pattern: Record<"all" | "text", RegExp | undefined>;

  constructor(json: TokenizerJson) {
    const parsed = TokenizerJson.safeParse(json);
    if (!parsed.success) {
      throw new SurgeError(
        "data",
        `The tokenizer is not a byte-level BPE tokenizer: ${parsed.error.issues[0]!.message}.`,
      );
    }
    this.added = parsed.data.added_tokens.map(({ id, content, special }) => ({ id, content, special }));
    for (const [token, id] of Object.entries(parsed.data.model.vocab)) this.#tokens[id] = token;
    this.#plain = plainTokenizer(json);
    this.#addedById = new Map(this.added.map((token) => [token.id, token]));
    this.#pattern = { all: patternOf(this.added), text: patternOf(this.added.filter((token) => !token.special)) };
  }

  get size(): number {
    return Math.max(this.#tokens.length, ...this.added.map((token) => token.id + 1));
  }

  /** Id of an added token by its text. */
  addedId(content: string): number | undefined {
    return this.added.find((token) => token.content === content)?.id;
  }

  isSpecial(id: number): boolean {
    return this.#addedById.get(id)?.special ?? false;
  }

  encode(text: string, addedTokens: AddedTokens): number[] {
    return this.split(text, addedTokens).flatMap((piece) =>
      typeof piece === "number" ? [piece] : this.#encodePlain(piece)
    );
  }

  /** Text cut at added tokens: ids and the plain text between. */
  split(text: string, addedTokens: AddedTokens): Array<number | string> {
    const pattern = addedTokens === "none" ? undefined : this.#pattern[addedTokens];
    const pieces: Array<number | string> = [];
    let at = 0;
    for (const match of pattern === undefined ? [] : text.matchAll(pattern)) {
      if (match.index > at) pieces.push(text.slice(at, match.index));
      pieces.push(this.addedId(match[0])!);
      at = match.index + match[0].length;
    }
    if (at < text.length) pieces.push(text.slice(at));
    return pieces;
  }

  #encodePlain(text: string): number[] {
    return text === "" ? [] : this.#plain.encode(text, { add_special_tokens: false }).ids;
  }

  /** The bytes one token stands for; none for an id that is not in the vocabulary. */
  bytes(id: number): Uint8Array {
    const added = this.#addedById.get(id);
    if (added !== undefined) return ENCODER.encode(added.content);
    const token = this.#tokens[id] ?? "";
    const bytes = [...token].map((character) => BYTE_OF.get(character));
    /* Reserved tokens are not written in byte characters: they are their own text. */
    return bytes.some((byte) => byte === undefined) ? ENCODER.encode(token) : Uint8Array.from(bytes as number[]);
  }

  decode(ids: number[], options: { skipSpecial?: boolean } = {}): string {
    const kept = options.skipSpecial ? ids.filter((id) => !this.isSpecial(id)) : ids;
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.concat(kept.map((id) => this.bytes(id))));
  }
}

/** The library's tokenizer without added tokens: it pre-tokenises and merges. */
function plainTokenizer(json: TokenizerJson): HuggingFaceTokenizer {
  try {
    return new HuggingFaceTokenizer({ ...json, added_tokens: [] }, {});
  } catch (thrown) {
    throw new SurgeError("data", `The tokenizer cannot be built: ${messageOf(thrown).replace(/\.$/, "")}.`);
  }
}

/** Matches any of the tokens, the longest first where one begins another. */
function patternOf(tokens: readonly AddedToken[]): RegExp | undefined {
  if (tokens.length === 0) return undefined;
  const longestFirst = tokens.map((token) => token.content).sort((a, b) => b.length - a.length);
  return new RegExp(longestFirst.map((content) => content.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "g");
}
