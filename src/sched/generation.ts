/**
 * One request on its way: what its sequence holds, what is fed next, when it ends. It never calls the engine.
 *
 * Invariant: `held` is exactly what the sequence has been fed; a chosen token joins it only when a step has fed it.
 */
import { PIECE_TOKENS } from "./pace.ts";
import type { FinishReason, GenerateRequest, GenerateStats } from "./request.ts";

export class Generation {
  readonly id: number;
  readonly request: GenerateRequest;
  readonly #context: number;
  readonly #startMs: number;
  sequence = -1;
  held: number[] = [];
  answerTokens = 0;
  /** Guesses that were checked, and of them those that were right. */
  draftedTokens = 0;
  acceptedTokens = 0;
  #cachedTokens = 0;
  #pending = -1;
  #forced: number[] = [];
  #reasoning: boolean;
  #firstTokenMs: number | undefined;

  constructor(id: number, request: GenerateRequest, { context, nowMs }: { context: number; nowMs: number }) {
    this.id = id;
    this.request = request;
    this.#context = context;
    this.#startMs = nowMs;
    this.#reasoning = (request.budget?.closeIds.length ?? 0) > 0;
  }

  /** Gives it a sequence that holds `tokens`, the beginning of its conversation. */
  place(sequence: number, tokens: number[]): void {
    this.sequence = sequence;
    this.held = tokens;
    this.#cachedTokens = tokens.length;
  }

  get prefilling(): boolean {
    return this.held.length < this.request.ids.length;
  }

  /** Length of the prefill piece that begins after `planned` more tokens; 0 when the prompt ends there. */
  pieceAfter(planned: number): number {
    const from = this.held.length + planned;
    const end = Math.min(this.request.ids.length, (Math.floor(from / PIECE_TOKENS) + 1) * PIECE_TOKENS);
    return Math.max(0, end - from);
  }

  /** The next `count` tokens to feed: of the prompt, or the chosen token. */
  next(count: number): number[] {
    return this.prefilling ? this.request.ids.slice(this.held.length, this.held.length + count) : [this.#pending];
  }

  /** Whether, once `count` more tokens are fed, a token has to be sampled (not: prompt unfinished, or the next is forced). */
  samplesAfter(count: number): boolean {
    return this.held.length + count >= this.request.ids.length && !this.forcesNext && this.request.maxTokens > 0;
  }

  /** The chosen token, which is fed next. */
  get pending(): number {
    return this.#pending;
  }

  /** Guesses that may follow the chosen token: one more token than these can come of a step. */
  get draftRoom(): number {
    if (this.forcesNext) return 0;
    return Math.min(this.request.maxTokens - this.answerTokens, this.#context - this.held.length) - 1;
  }

  get forcesNext(): boolean {
    return this.#forced.length > 0 || this.#overBudget;
  }

  get #overBudget(): boolean {
    return this.#reasoning && this.answerTokens >= this.request.budget!.tokens;
  }

  takeForced(): number {
    if (this.#overBudget) {
      this.#reasoning = false;
      this.#forced = [...this.request.budget!.closeIds];
    }
    return this.#forced.shift()!;
  }

  fed(tokens: number[]): void {
    for (const token of tokens) this.held.push(token);
  }

  /** Takes the next token of the answer; says whether it is sent and whether the answer ends here. */
  accept(token: number, nowMs: number): { send: boolean; finish?: FinishReason } {
    this.#firstTokenMs ??= nowMs;
    if (this.request.stopTokens.includes(token)) return { send: false, finish: "stop" };
    this.answerTokens++;
    if (token === this.request.budget?.endId) this.#reasoning = false;
    this.#pending = token;
    const full = this.answerTokens >= this.request.maxTokens || this.held.length >= this.#context;
    return full ? { send: true, finish: "length" } : { send: true };
  }

  stats(nowMs: number): GenerateStats {
    const firstMs = this.#firstTokenMs ?? nowMs;
    return {
      promptTokens: this.request.ids.length,
      cachedTokens: this.#cachedTokens,
      answerTokens: this.answerTokens,
      draftedTokens: this.draftedTokens,
      acceptedTokens: this.acceptedTokens,
      prefillMs: firstMs - this.#startMs,
      decodeMs: nowMs - firstMs,
    };
  }
}
