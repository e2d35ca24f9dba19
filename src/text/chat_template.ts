/**
 * Messages to prompt ids through the model's own template, so that text from a person never becomes a control token.
 *
 * Before rendering, every added token inside message text is replaced by a private-use character; afterwards only the template's own
 * text is searched for added tokens, the characters are turned back, and what lies between is encoded as plain text. An assistant's
 * own earlier words keep their <think> and <tool_call> marks, which the template reads; special tokens are replaced there too.
 */
import { Template } from "@huggingface/jinja";
import { messageOf, SurgeError } from "../base/errors.ts";
import { correctJinja } from "./jinja_python.ts";
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

/** Plane 15: private use, so no text loses by it; occurrences in message text are replaced like tokens. */
const FIRST = 0xf0000;
const LAST = 0xffffd;
const PRIVATE = /[\u{F0000}-\u{FFFFD}]/gu;

/** Replaces texts by single private-use characters and back. */
class Placeholders {
  readonly #byText = new Map<string, string>();
  readonly #texts: string[] = [];

  #take(text: string): string {
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    if (FIRST + this.#texts.length > LAST) {
      throw new SurgeError("usage", "The messages hold too many private-use characters.");
    }
    const character = String.fromCodePoint(FIRST + this.#texts.length);
    this.#texts.push(text);
    this.#byText.set(text, character);
    return character;
  }

  protect(text: string, tokens: RegExp): string {
    return text.replace(PRIVATE, (each) => this.#take(each)).replace(tokens, (each) => this.#take(each));
  }

  restore(text: string): string {
    return text.replace(PRIVATE, (each) => this.#texts[each.codePointAt(0)! - FIRST] ?? each);
  }
}

function deepMap(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((each) => deepMap(each, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [change(key), deepMap(each, change)]));
}

function tokenPattern(contents: string[]): RegExp {
  const escaped = contents.sort((a, b) => b.length - a.length).map((each) =>
    each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
  );
  return escaped.length === 0 ? /(?!)/g : new RegExp(escaped.join("|"), "g");
}

export class ChatTemplate {
  readonly #template: Template;
  readonly #tokenizer: Tokenizer;
  readonly #anyToken: RegExp;
  readonly #specialToken: RegExp;

  constructor(source: string, tokenizer: Tokenizer) {
    correctJinja();
    try {
      this.#template = new Template(source);
    } catch (thrown) {
      throw new SurgeError("data", `The model's chat template cannot be read: ${messageOf(thrown)}.`);
    }
    this.#tokenizer = tokenizer;
    this.#anyToken = tokenPattern(tokenizer.added.map((token) => token.content));
    this.#specialToken = tokenPattern(tokenizer.added.filter((token) => token.special).map((token) => token.content));
  }

  /** The prompt as text, as the template alone would render it. */
  render(messages: ChatMessage[], options: TemplateOptions): string {
    try {
      return this.#template.render({ tools: null, documents: null, ...options, messages });
    } catch (thrown) {
      throw new SurgeError(
        "usage",
        `The model's chat template refuses these messages: ${messageOf(thrown).replace(/\.$/, "")}.`,
      );
    }
  }

  /** The prompt as ids; control tokens come from the template alone. */
  encode(messages: ChatMessage[], options: TemplateOptions): number[] {
    const placeholders = new Placeholders();
    const any = (text: string) => placeholders.protect(text, this.#anyToken);
    const special = (text: string) => placeholders.protect(text, this.#specialToken);
    const safe = messages.map((message) => {
      const rest = deepMap({ ...message, role: "" }, any) as ChatMessage;
      const content = deepMap(message.content, message.role === "assistant" ? special : any);
      return { ...rest, role: message.role, content };
    });
    const tools = options.tools ? deepMap(options.tools, any) as unknown[] : null;
    const text = this.render(safe, { ...options, tools });
    return this.#tokenizer.split(text, "all").flatMap((piece) =>
      typeof piece === "number" ? [piece] : this.#tokenizer.encode(placeholders.restore(piece), "none")
    );
  }
}
