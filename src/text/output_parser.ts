/**
 * What a model writes, cut into reasoning, content and tool calls while it arrives. The result is the same for every way the text is
 * split into pieces; nothing that may still become a tag is let out early. Rules: test/golden/text/parse/README.md.
 */
import type { JsonSchema } from "./argument_value.ts";
import { callOfJson, JsonWalk } from "./json_call.ts";
import { CLOSE, couldBecome, FUNCTION_OPEN, OPEN, skipSpace } from "./tags.ts";
import { ArgumentsReader } from "./tool_arguments.ts";

export interface Tool {
  function: { name: string; parameters?: JsonSchema };
}

export type ParsedDelta =
  | { kind: "reasoning"; text: string }
  | { kind: "content"; text: string }
  /** A call begins; its arguments follow. Indices count up from 0. */
  | { kind: "tool_call"; index: number; name: string }
  /** The next piece of the JSON text of a call's arguments. */
  | { kind: "tool_arguments"; index: number; text: string };

export interface ParserOptions {
  /** think: the prompt ended inside an open think block. */
  start: "think" | "answer";
  tools?: Tool[];
}

const THINK = "<think>";
const UNTHINK = "</think>";
type Mode = "start" | "reasoning" | "content" | "call" | "arguments" | "after_call" | "dropped";

/** Where a call begins, or may begin once more text is there. */
interface CallStart {
  at: number;
  certain: boolean;
}

export class OutputParser {
  readonly #tools: Tool[];
  readonly #names: string[];
  #mode: Mode = "start";
  #inside: boolean;
  #text = "";
  #calls = 0;
  /** White space that waits for what comes after it. */
  #space = "";
  #reasoned = false;
  /** Content so far, or in this piece between calls, is empty. */
  #contentEmpty = true;
  #pieceEmpty = true;
  /** A call ended the think block; one late closer is dropped. */
  #early = false;
  #closerDue = false;
  /** Of the call that is being read: its parameters, or its JSON object. */
  #reader: ArgumentsReader | undefined;
  #walk: JsonWalk | undefined;
  #deltas: ParsedDelta[] = [];

  constructor(options: ParserOptions) {
    this.#inside = options.start === "think";
    this.#tools = options.tools ?? [];
    this.#names = this.#tools.map((tool) => tool.function.name);
  }

  /** Whether a tool call was parsed: the finish reason of an answer that ended by itself is then "tool_calls". */
  get calls(): number {
    return this.#calls;
  }

  push(text: string): ParsedDelta[] {
    this.#text += text;
    return this.#run(false);
  }

  /** The text has ended; what was held back is decided. */
  finish(): ParsedDelta[] {
    const deltas = this.#run(true);
    /* Trailing white space of an answer without calls is the model's own; after a call it is the template's. */
    if (this.#mode !== "reasoning" && this.#calls === 0 && !this.#early) this.#emitContent(this.#space);
    return [...deltas, ...this.#take()];
  }

  #take(): ParsedDelta[] {
    const deltas = this.#deltas;
    this.#deltas = [];
    return deltas;
  }

  #run(final: boolean): ParsedDelta[] {
    while (this.#step(final));
    return this.#take();
  }

  /** One decision; false when more text is needed. */
  #step(final: boolean): boolean {
    switch (this.#mode) {
      case "start":
        return this.#begin(final);
      case "reasoning":
        return this.#reason(final);
      case "content":
        return this.#content(final);
      case "call":
        return this.#call(final);
      case "arguments":
        return this.#arguments(final);
      case "after_call":
        return this.#afterCall(final);
      default:
        this.#text = "";
        return false;
    }
  }

  #begin(final: boolean): boolean {
    const at = skipSpace(this.#text, 0);
    const tags = this.#inside ? [THINK] : [THINK, UNTHINK];
    const tag = tags.find((each) => this.#text.startsWith(each, at));
    if (tag === undefined && !final && couldBecome(this.#text, at, tags)) return false;
    if (tag !== undefined) this.#text = this.#text.slice(at + tag.length);
    if (tag === THINK) this.#inside = true;
    this.#mode = this.#inside ? "reasoning" : "content";
    return true;
  }

  /** First place where a call begins (certain) or could (not certain). */
  #callStart(final: boolean): CallStart | undefined {
    if (this.#tools.length === 0) return undefined;
    for (const match of this.#text.matchAll(/</g)) {
      const at = match.index;
      const certain = this.#isCallAt(at);
      if (certain === undefined ? !final : certain) return { at, certain: certain === true };
      if (certain === undefined && final && this.#text.startsWith(OPEN, at)) return { at, certain: true };
    }
    return undefined;
  }

  /** Whether a call begins at `at`; undefined while more text could decide. */
  #isCallAt(at: number): boolean | undefined {
    const text = this.#text;
    if (text.startsWith(OPEN, at)) {
      const next = skipSpace(text, at + OPEN.length);
      if (text[next] === "{" || text.startsWith(FUNCTION_OPEN, next)) return true;
      return next === text.length || couldBecome(text, next, [FUNCTION_OPEN]) ? undefined : false;
    }
    const bare = /^<function=([^>\n]*)(>?)/.exec(text.slice(at, at + 4096));
    if (bare !== null) {
      if (bare[2] === ">") return this.#names.includes(bare[1]!.trim());
      const open = at + bare[0].length === text.length;
      return open && this.#names.some((name) => name.startsWith(bare[1]!.trim())) ? undefined : false;
    }
    return couldBecome(text, at, [OPEN, FUNCTION_OPEN]) ? undefined : false;
  }

  #reason(final: boolean): boolean {
    const close = this.#text.indexOf(UNTHINK);
    const call = this.#callStart(final);
    if (call?.certain && (close < 0 || call.at < close)) {
      this.#emitReasoning(this.#text.slice(0, call.at));
      this.#text = this.#text.slice(call.at);
      this.#early = true;
      this.#closerDue = true;
      this.#startContent("call");
      return true;
    }
    if (close >= 0 && (call === undefined || close < call.at)) {
      this.#emitReasoning(this.#text.slice(0, close));
      this.#text = this.#text.slice(close + UNTHINK.length);
      this.#startContent("content");
      return true;
    }
    const held = final ? this.#text.length : Math.min(call?.at ?? Infinity, this.#tagTail(UNTHINK));
    this.#emitReasoning(this.#text.slice(0, held));
    this.#text = this.#text.slice(held);
    return false;
  }

  /** Where a tail begins that could become `tag`. */
  #tagTail(tag: string): number {
    for (let n = Math.min(tag.length - 1, this.#text.length); n > 0; n--) {
      if (this.#text.endsWith(tag.slice(0, n))) return this.#text.length - n;
    }
    return this.#text.length;
  }

  #startContent(mode: Mode): void {
    this.#space = "";
    this.#mode = mode;
  }

  #content(final: boolean): boolean {
    if (this.#closerDue && this.#pieceEmpty && this.#space.trim() === "") {
      const at = skipSpace(this.#text, 0);
      if (this.#text.startsWith(UNTHINK, at)) {
        this.#text = this.#text.slice(at + UNTHINK.length);
        this.#closerDue = false;
      } else if (!final && (at === this.#text.length || couldBecome(this.#text, at, [UNTHINK]))) return false;
    }
    const call = this.#callStart(final);
    const end = call?.at ?? this.#text.length;
    this.#emitText(this.#text.slice(0, end));
    this.#text = this.#text.slice(end);
    if (call?.certain) this.#startContent("call");
    return call?.certain ?? false;
  }

  /** The text begins with `<tool_call>` or a bare `<function=…>`. */
  #call(final: boolean): boolean {
    const at = this.#text.startsWith(OPEN) ? skipSpace(this.#text, OPEN.length) : 0;
    if (this.#text[at] === "{") return this.#jsonCall(at, final);
    const header = /^<function=([^>\n]*)>/.exec(this.#text.slice(at));
    if (header !== null) {
      const name = header[1]!.trim();
      const schema = this.#tools.find((tool) => tool.function.name === name)?.function.parameters;
      this.#reader = new ArgumentsReader((schema?.["properties"] ?? {}) as Record<string, unknown>);
      this.#deltas.push({ kind: "tool_call", index: this.#calls++, name });
      this.#text = this.#text.slice(at + header[0].length);
      this.#mode = "arguments";
      return true;
    }
    /* A header that a line break ends before its ">" never becomes one: nothing usable follows. */
    const broken = this.#text.startsWith(FUNCTION_OPEN, at) && this.#text.includes("\n", at);
    if (final || broken) this.#mode = "dropped";
    return final || broken;
  }

  #arguments(final: boolean): boolean {
    const { used, json, then } = this.#reader!.step(this.#text, final);
    this.#text = this.#text.slice(used);
    this.#emitArguments(json);
    if (then === "end") this.#mode = "after_call";
    return then !== "wait";
  }

  /** A call as a JSON object; what turns out to be none is content. */
  #jsonCall(at: number, final: boolean): boolean {
    this.#walk ??= new JsonWalk(at);
    const end = this.#walk.end(this.#text);
    if (end === undefined && !final) return false;
    const call = end === undefined ? undefined : callOfJson(this.#text.slice(at, end));
    if (call !== undefined) {
      this.#walk = undefined;
      this.#deltas.push({ kind: "tool_call", index: this.#calls++, name: call.name });
      this.#emitArguments(call.arguments);
      this.#text = this.#text.slice(end);
      this.#mode = "after_call";
      return true;
    }
    const close = this.#text.indexOf(CLOSE, at);
    if (close < 0) {
      if (final) this.#mode = "dropped";
      return final;
    }
    this.#walk = undefined;
    this.#emitText(this.#text.slice(0, close + CLOSE.length));
    this.#text = this.#text.slice(close + CLOSE.length);
    this.#pieceEnds();
    this.#mode = "content";
    return true;
  }

  #emitArguments(text: string): void {
    if (text !== "") this.#deltas.push({ kind: "tool_arguments", index: this.#calls - 1, text });
  }

  /** The call's closer, or another bare function right behind it. */
  #afterCall(final: boolean): boolean {
    const at = skipSpace(this.#text, 0);
    if (this.#text.startsWith(CLOSE, at)) {
      this.#text = this.#text.slice(at + CLOSE.length);
      this.#pieceEnds();
      this.#mode = "content";
      return true;
    }
    const bare = /^<function=[^>\n]*>/.exec(this.#text.slice(at));
    if (bare !== null) {
      this.#text = this.#text.slice(at);
      this.#mode = "call";
      return true;
    }
    const open = /^<function=[^>\n]*$/.test(this.#text.slice(at));
    if (!final && (at === this.#text.length || open || couldBecome(this.#text, at, [CLOSE, FUNCTION_OPEN]))) {
      return false;
    }
    this.#pieceEnds();
    this.#mode = "content";
    return true;
  }

  #pieceEnds(): void {
    this.#pieceEmpty = true;
    this.#space = "";
  }

  /** Newlines at both ends go; those inside wait until something follows. */
  #emitReasoning(text: string): void {
    const all = this.#reasoned ? this.#space + text : text.replace(/^[\r\n]+/, "");
    const body = all.replace(/[\r\n]+$/, "");
    this.#space = all.slice(body.length);
    if (body === "") return;
    this.#reasoned = true;
    this.#deltas.push({ kind: "reasoning", text: body });
  }

  /** Content of the running piece: leading newlines (after a call: all white space) go, trailing white space waits. */
  #emitText(text: string): void {
    let all = this.#space + text;
    if (this.#pieceEmpty) all = this.#calls > 0 || this.#early ? all.trimStart() : all.replace(/^[\r\n]+/, "");
    const body = all.trimEnd();
    this.#space = all.slice(body.length);
    if (body === "") return;
    this.#emitContent(this.#pieceEmpty && !this.#contentEmpty ? `\n\n${body}` : body);
    this.#pieceEmpty = false;
  }

  #emitContent(text: string): void {
    if (text === "") return;
    this.#contentEmpty = false;
    this.#deltas.push({ kind: "content", text });
  }
}
