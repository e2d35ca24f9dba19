/**
 * Messages to prompt ids through the model's own template, so that text from outside never becomes a control token.
 *
 * All text that messages, tools and options bring is rendered with stand-ins (see Shadows). What the rendering then holds of added tokens
 * was written by the template, and only that becomes their ids; everything else, stand-ins turned back, is encoded as plain text.
 */
import { Template } from "@huggingface/jinja";
import { messageOf, SurgeError } from "../base/errors.ts";
import { renderTemplate } from "./jinja_python.ts";
import type { Fold } from "./jinja_values.ts";
import { Shadows } from "./shadows.ts";
import type { Tokenizer } from "./tokenizer.ts";

export interface ToolCall {
  id?: string;
  type?: "function";
  function: { name: string; arguments: Record<string, unknown> };
}

export interface ChatMessage {
  role: string;
  content: unknown;
  reasoning_content?: string;
  tool_calls?: ToolCall[];
}

export interface TemplateOptions {
  tools?: unknown[] | null;
  add_generation_prompt?: boolean;
  enable_thinking?: boolean;
  preserve_thinking?: boolean;
}

export class ChatTemplate {
  readonly #source: string;
  readonly #template: Template;
  readonly #tokenizer: Tokenizer;

  /** `source`: the jinja text a model comes with. Fails where it cannot be parsed. */
  constructor(source: string, tokenizer: Tokenizer) {
    try {
      this.#template = new Template(source);
    } catch (thrown) {
      throw new SurgeError("data", `The model's chat template cannot be read: ${sentencePart(thrown)}.`);
    }
    this.#source = source;
    this.#tokenizer = tokenizer;
  }

  /** The prompt as text, as the template alone would render it. Not for encoding: what is control text and what is not is lost. */
  render(messages: ChatMessage[], options: TemplateOptions): string {
    return this.#render({ messages, ...options }, (text) => text);
  }

  /** The prompt as ids; control tokens come from the template alone. Fails where the template refuses the messages. */
  encode(messages: ChatMessage[], options: TemplateOptions): number[] {
    const given = { messages, ...options };
    const tokens = this.#tokenizer.added.map((token) => token.content);
    const shadows = new Shadows(tokens, [given, this.#source]);
    const text = this.#render(shadows.protect(given), shadows.fold);
    return this.#tokenizer.split(text, "all").flatMap((piece) =>
      typeof piece === "number" ? [piece] : this.#tokenizer.encode(shadows.fold(piece), "none")
    );
  }

  #render(given: { messages: ChatMessage[] } & TemplateOptions, fold: Fold): string {
    try {
      return renderTemplate(this.#template, { tools: null, documents: null, ...given }, fold);
    } catch (thrown) {
      throw new SurgeError(
        "usage",
        `The model's chat template refuses these messages: ${fold(sentencePart(thrown))}.`,
      );
    }
  }
}

/** A thrown message to end a sentence with. */
function sentencePart(thrown: unknown): string {
  return messageOf(thrown).replace(/\.$/, "");
}
