/**
 * The chat in a terminal: reads messages, streams answers, keeps the conversation. Ctrl-C stops an answer and keeps the session;
 * Ctrl-D leaves. Keys typed while an answer runs wait for the prompt.
 */
import { messageOf } from "../base/errors.ts";
import { printable } from "../base/printable.ts";
import type { EngineClient } from "../engine/client.ts";
import { type AnswerEnd, type AnswerSettings, Conversation, type ModelText } from "../engine/conversation.ts";
import type { Manifest } from "../model/manifest.ts";
import type { Plan } from "../plan/schema.ts";
import type { ChatMessage } from "../text/chat_template.ts";
import { type ChatSession, runCommand, showStats } from "./commands.ts";
import { loadHistory, saveHistory } from "./history.ts";
import type { Key } from "./keys.ts";
import { LineEditor } from "./line_editor.ts";
import { Terminal } from "./terminal.ts";

export interface ReplOptions {
  client: EngineClient;
  manifest: Manifest;
  plan: Plan;
  text: ModelText;
  settings: AnswerSettings;
  system: string;
}

const PROMPT = "> ";
const DIM = "\x1b[2m";
const PLAIN = "\x1b[0m";
/** Keys kept while an answer runs. */
const TYPE_AHEAD_MAX = 4096;

class Repl {
  readonly #options: ReplOptions;
  readonly #terminal: Terminal;
  readonly #editor = new LineEditor(loadHistory());
  readonly #conversation: Conversation;
  readonly #session: ChatSession;
  readonly #done = Promise.withResolvers<void>();
  #waiting: Key[] = [];
  #answer: AbortController | undefined;
  #closed = false;

  constructor(options: ReplOptions) {
    this.#options = options;
    this.#conversation = new Conversation(options.client, { text: options.text, plan: options.plan, name: "chat" });
    this.#session = {
      messages: [],
      system: options.system,
      settings: options.settings,
      lastStats: undefined,
      contextTokens: options.plan.context,
      modelName: options.manifest.name,
    };
    this.#terminal = new Terminal({
      onKey: (key) => this.#receive(key),
      onResize: () => this.#answer === undefined && this.#draw(),
      onEnd: () => this.#close(),
    });
    this.#terminal.write(`${printable(options.manifest.name)}: /help lists commands, Ctrl-D leaves.\n\n`);
    this.#draw();
  }

  get finished(): Promise<void> {
    return this.#done.promise;
  }

  #draw(): void {
    if (!this.#closed) this.#terminal.draw(this.#editor.layout(PROMPT, this.#terminal.columns));
  }

  #receive(key: Key): void {
    if (this.#closed) return;
    if (this.#answer !== undefined) {
      if (key.kind === "key" && key.name === "interrupt") this.#answer.abort();
      else if (this.#waiting.length < TYPE_AHEAD_MAX) this.#waiting.push(key);
      return;
    }
    const event = this.#editor.handle(key);
    if (event === "submit") this.#submit();
    else if (event === "eof") this.#close();
    else if (event === "interrupt") this.#interrupt();
    else this.#draw();
  }

  #interrupt(): void {
    const hint = this.#editor.text === "" ? `${DIM}Ctrl-D leaves.${PLAIN}\n` : "";
    this.#terminal.leave(this.#editor.layout(PROMPT, this.#terminal.columns));
    this.#editor.clear();
    this.#terminal.write(hint);
    this.#draw();
  }

  #submit(): void {
    this.#terminal.leave(this.#editor.layout(PROMPT, this.#terminal.columns));
    const text = this.#editor.submit();
    if (text.trim() === "") return this.#draw();
    if (!text.startsWith("/")) {
      this.#session.messages.push({ role: "user", content: text });
      return void this.#respond();
    }
    const result = runCommand(this.#session, text);
    if (result === "exit") return this.#close();
    if (result === "regenerate") {
      while (this.#session.messages.at(-1)?.role !== "user") this.#session.messages.pop();
      /* The same seed would give the same answer. */
      const { sampler } = this.#session.settings;
      sampler.seed = sampler.seed >= Number.MAX_SAFE_INTEGER ? 0 : sampler.seed + 1;
      return void this.#respond();
    }
    this.#terminal.write(`${printable(result.show)}\n\n`);
    this.#draw();
  }

  /** Answers the last message. A failure takes the message back, so that it can be sent again. */
  async #respond(): Promise<void> {
    this.#answer = new AbortController();
    try {
      const end = await this.#stream(this.#answer.signal);
      this.#session.lastStats = end.stats;
      const note = end.reason === "cancelled"
        ? ", stopped"
        : end.reason === "length"
        ? ", cut off at its greatest length"
        : "";
      this.#terminal.write(`${PLAIN}\n${DIM}[${showStats(end.stats)}${note}]${PLAIN}\n\n`);
    } catch (thrown) {
      this.#session.messages.pop();
      this.#terminal.write(`${PLAIN}\n${printable(messageOf(thrown))}\n\n`);
    }
    this.#answer = undefined;
    this.#draw();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const key of waiting) this.#receive(key);
  }

  async #stream(signal: AbortSignal): Promise<AnswerEnd> {
    const { client, manifest, plan } = this.#options;
    /* The engine's process may have died in an earlier answer; the conversation lives here. */
    if (client.pid === undefined) await client.open(manifest, plan);
    const { system, messages, settings } = this.#session;
    const all: ChatMessage[] = [...(system === "" ? [] : [{ role: "system", content: system }]), ...messages];
    const answer = this.#conversation.answer(all, settings, { signal });
    const message = { role: "assistant", content: "", reasoning_content: "" };
    for (let next = await answer.next();; next = await answer.next()) {
      if (next.done) {
        messages.push(message.reasoning_content === "" ? { role: "assistant", content: message.content } : message);
        return next.value;
      }
      const delta = next.value;
      if (delta.kind === "reasoning") {
        this.#terminal.write(DIM + printable(delta.text) + PLAIN);
        message.reasoning_content += delta.text;
      } else if (delta.kind === "content") {
        if (message.content === "" && message.reasoning_content !== "") this.#terminal.write("\n\n");
        this.#terminal.write(printable(delta.text));
        message.content += delta.text;
      }
    }
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#answer?.abort();
    /* First, since the terminal may be what failed. */
    saveHistory(this.#editor.history);
    this.#terminal.write("\n");
    this.#terminal.close();
    this.#done.resolve();
  }
}

/** Runs until the person leaves. */
export async function startRepl(options: ReplOptions): Promise<void> {
  await new Repl(options).finished;
}
