/**
 * A conversation with a model: messages to prompt, tokens to reasoning, content and tool calls. Used by every front end; knows the
 * engine client and src/text, and nothing of terminals or HTTP.
 */
import { SurgeError } from "../base/errors.ts";
import { readTextSource } from "../model/text_source.ts";
import type { Manifest } from "../model/manifest.ts";
import { withoutUnprintable } from "../model/untrusted_text.ts";
import type { Plan } from "../plan/schema.ts";
import { type ChatMessage, ChatTemplate, type TemplateOptions } from "../text/chat_template.ts";
import { tokenizerJsonOfGguf } from "../text/gguf_tokenizer.ts";
import { OutputParser, type ParsedDelta, type Tool } from "../text/output_parser.ts";
import { StopStrings } from "../text/stop_strings.ts";
import { Tokenizer } from "../text/tokenizer.ts";
import { Utf8Stream } from "../text/utf8_stream.ts";
import type { EngineClient, FinishReason, GenerateStats } from "./client.ts";
import type { SamplerOptions } from "./protocol.ts";

/** The text side of a model. */
export interface ModelText {
  tokenizer: Tokenizer;
  /** Undefined where the model has none: then it cannot chat. */
  template: ChatTemplate | undefined;
  stopTokens: number[];
}

/** Tokens that end a turn in this family even where a file forgets to list them. */
const END_TOKENS = ["<|im_end|>", "<|endoftext|>"];

export function loadModelText(manifest: Manifest): ModelText {
  const source = readTextSource(manifest);
  const tokenizer = naming(
    source.tokenizerPath,
    () => new Tokenizer(source.kind === "gguf" ? tokenizerJsonOfGguf(source.metadata) : source.tokenizer),
  );
  const { chatTemplate } = source;
  const template = chatTemplate === undefined
    ? undefined
    : naming(source.templatePath, () => new ChatTemplate(chatTemplate, tokenizer));
  const ends = END_TOKENS.map((token) => tokenizer.addedId(token)).filter((id) => id !== undefined);
  return { tokenizer, template, stopTokens: [...new Set([...manifest.stopTokens, ...ends])] };
}

/** src/text knows no files; a person must be told which one is at fault. */
function naming<T>(path: string, make: () => T): T {
  try {
    return make();
  } catch (thrown) {
    throw thrown instanceof SurgeError
      ? new SurgeError(thrown.kind, `${path}: ${withoutUnprintable(thrown.message)}`)
      : thrown;
  }
}

export interface AnswerSettings {
  sampler: SamplerOptions;
  /** Undefined: as many as the context holds. */
  maxTokens?: number;
  stop: string[];
  /** Undefined: as the model's template does by itself. */
  think?: boolean;
  /** Tokens after which an open think block is closed. */
  reasoningBudget?: number;
  tools?: Tool[];
}

export interface AnswerEnd {
  reason: FinishReason | "tool_calls";
  stats: GenerateStats;
}

export interface AnswerOptions {
  signal?: AbortSignal;
  onPrefill?: (done: number, total: number) => void;
}

export class Conversation {
  readonly #client: EngineClient;
  readonly #text: ModelText;
  readonly #plan: Plan;
  readonly #name: string;

  constructor(client: EngineClient, options: { text: ModelText; plan: Plan; name: string }) {
    this.#client = client;
    this.#text = options.text;
    this.#plan = options.plan;
    this.#name = options.name;
  }

  prompt(messages: ChatMessage[], settings: Pick<AnswerSettings, "think" | "tools">): number[] {
    if (this.#text.template === undefined) {
      throw new SurgeError("data", "The model has no chat template, so it cannot hold a conversation.");
    }
    const options: TemplateOptions = {
      add_generation_prompt: true,
      tools: settings.tools?.length ? settings.tools : null,
    };
    if (settings.think !== undefined) options.enable_thinking = settings.think;
    return this.#text.template.encode(messages, options);
  }

  /** Answers the messages, delta by delta; the return value says how it ended. Leaving the loop early stops the engine. */
  async *answer(
    messages: ChatMessage[],
    settings: AnswerSettings,
    options: AnswerOptions = {},
  ): AsyncGenerator<ParsedDelta, AnswerEnd> {
    const ids = this.prompt(messages, settings);
    const cancel = new AbortController();
    const signal = options.signal === undefined ? cancel.signal : AbortSignal.any([options.signal, cancel.signal]);
    const inside = this.#endsInThinking(ids);
    const generation = this.#client.generate({
      ids,
      conversation: this.#name,
      maxTokens: settings.maxTokens ?? this.#plan.context,
      stopTokens: this.#text.stopTokens,
      sampler: settings.sampler,
      ...(inside && settings.reasoningBudget !== undefined ? { budget: this.#budget(settings.reasoningBudget) } : {}),
    }, { signal, ...(options.onPrefill === undefined ? {} : { onPrefill: options.onPrefill }) });
    const decode = new AnswerDecoder(this.#text.tokenizer, { start: inside ? "think" : "answer", settings });
    for await (const tokens of generation) {
      yield* decode.push(tokens);
      if (decode.stopped) cancel.abort();
    }
    const { reason, stats } = await generation.result;
    yield* decode.finish();
    const stopped = decode.stopped ? "stop" : reason;
    return { reason: stopped === "stop" && decode.calls > 0 ? "tool_calls" : stopped, stats };
  }

  #endsInThinking(ids: number[]): boolean {
    const open = this.#text.tokenizer.addedId("<think>");
    const close = this.#text.tokenizer.addedId("</think>");
    return open !== undefined && ids.lastIndexOf(open) > ids.lastIndexOf(close ?? -1);
  }

  #budget(tokens: number): { tokens: number; endId: number; closeIds: number[] } | undefined {
    const endId = this.#text.tokenizer.addedId("</think>");
    return endId === undefined
      ? undefined
      : { tokens, endId, closeIds: this.#text.tokenizer.encode("\n</think>\n\n", "all") };
  }
}

/** Tokens to deltas, with stop strings applied to content. */
class AnswerDecoder {
  readonly #tokenizer: Tokenizer;
  readonly #utf8 = new Utf8Stream();
  readonly #stops: StopStrings;
  readonly #parser: OutputParser;

  constructor(tokenizer: Tokenizer, options: { start: "think" | "answer"; settings: AnswerSettings }) {
    this.#tokenizer = tokenizer;
    this.#stops = new StopStrings(options.settings.stop);
    this.#parser = new OutputParser({
      start: options.start,
      ...(options.settings.tools ? { tools: options.settings.tools } : {}),
    });
  }

  get stopped(): boolean {
    return this.#stops.stopped;
  }

  get calls(): number {
    return this.#parser.calls;
  }

  push(tokens: number[]): ParsedDelta[] {
    const text = tokens.filter((id) => !this.#tokenizer.isSpecial(id)).map((id) =>
      this.#utf8.push(this.#tokenizer.bytes(id))
    ).join("");
    return this.#cut(this.#parser.push(text));
  }

  finish(): ParsedDelta[] {
    const deltas = this.#cut([...this.#parser.push(this.#utf8.flush()), ...this.#parser.finish()]);
    const rest = this.#stops.flush();
    return rest === "" ? deltas : [...deltas, { kind: "content", text: rest }];
  }

  #cut(deltas: ParsedDelta[]): ParsedDelta[] {
    return deltas.flatMap((delta): ParsedDelta[] => {
      if (delta.kind !== "content") return this.stopped ? [] : [delta];
      const text = this.#stops.push(delta.text);
      return text === "" ? [] : [{ kind: "content", text }];
    });
  }
}
