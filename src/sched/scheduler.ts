/**
 * Many requests, one engine: which rows go into the next step, which sequence serves whom, and when a request ends.
 *
 * Pure policy: it sees the engine as a few calls (StepEngine), time as a Clock, and answers with events. It never waits.
 * A step runs in slices, so that even a long prefill lets messages in; what is cancelled meanwhile is closed when its step ends.
 * Invariants: a request that is cancelled or fails leaves no sequence behind; every event names a live request and
 * `finished` or `failed` is its last; open sequences never exceed `parallel`.
 */
import type { Clock } from "../base/clock.ts";
import { messageOf, SurgeError } from "../base/errors.ts";
import { Conversations } from "./conversations.ts";
import { type DraftEngine, Drafting, type DraftOptions } from "./drafting.ts";
import { Generation } from "./generation.ts";
import { Pace, PIECE_TOKENS } from "./pace.ts";
import type { FinishReason, GenerateRequest, SamplerOptions, StepEvent } from "./request.ts";

/** A slice of a step takes at most about this long, so that cancelling and pings stay prompt; so does a step that others wait for. */
export const STEP_TARGET_MS = 200;
/** A step of prefill alone: many rows share each expert's weights, and a new request waits no longer than this for its first rows. */
export const PREFILL_TARGET_MS = 2000;
/** Requests that may wait for a sequence. */
export const WAITING_MAX = 1024;

export interface StepRow {
  sequence: number;
  position: number;
  token: number;
  logits: boolean;
  /** May be taken back; such rows come last in their sequence's, after one that stays. */
  draft?: boolean;
}

export interface StepEngine extends DraftEngine {
  openSequence(): number;
  closeSequence(sequence: number): void;
  /** Begins to advance every sequence named by its rows; rows of one sequence are adjacent. Moves none when it throws. */
  beginStep(rows: StepRow[]): void;
  /** Goes on for about `budgetMs`; true when the step is done. Its sequences must not be closed before. */
  runStep(budgetMs: number): boolean;
  /** Gives the step up and closes its sequences; returns them. */
  abandonStep(): number[];
  /** Takes back a sequence's last rows, down to the first draft of the step that moved it last. */
  rewindSequence(sequence: number, length: number): void;
  /** The next token after the n-th row of the last step that asked for logits. */
  sample(logitsRow: number, sequence: number, options: SamplerOptions & { answerFrom: number; draw: number }): number;
}

export interface SchedulerLimits extends DraftOptions {
  context: number;
  parallel: number;
  stepRows: number;
  vocab: number;
}

interface Share {
  generation: Generation;
  tokens: number[];
  /** The last `drafted` of them are guesses. */
  drafted: number;
  /** Whether something is sampled after the last token that stays, and after each guess. */
  samples: boolean;
}

/** A step that has begun. */
interface Pending {
  shares: Share[];
  prefillRows: number;
  decodeRows: number;
  elapsedMs: number;
}

export class Scheduler {
  readonly #engine: StepEngine;
  readonly #limits: SchedulerLimits;
  readonly #clock: Clock;
  readonly #pace = new Pace({ mixedMs: STEP_TARGET_MS, aloneMs: PREFILL_TARGET_MS });
  readonly #kept = new Conversations();
  readonly #drafting: Drafting;
  readonly #waiting: Generation[] = [];
  readonly #active: Generation[] = [];
  #openSequences = 0;
  #pending: Pending | undefined;
  #turn = 0;
  #events: StepEvent[] = [];

  constructor(engine: StepEngine, limits: SchedulerLimits, clock: Clock) {
    checkLimits(limits);
    this.#engine = engine;
    this.#limits = limits;
    this.#clock = clock;
    this.#drafting = new Drafting(engine, limits, clock);
  }

  get busy(): boolean {
    return this.#waiting.length + this.#active.length + this.#events.length > 0 || this.#pending !== undefined;
  }

  /** A step has begun and is not done: the engine takes no other. */
  get midStep(): boolean {
    return this.#pending !== undefined;
  }

  /** Takes a request. Throws a SurgeError (and takes nothing) where it can never run. */
  add(id: number, request: GenerateRequest): void {
    checkPrompt(request.ids, this.#limits);
    if (request.ids.length === this.#limits.context) throw contextFull(request.ids.length, this.#limits.context);
    if (this.#waiting.length >= WAITING_MAX) {
      throw new SurgeError("unavailable", `${WAITING_MAX} requests are waiting already; try again later.`);
    }
    this.#waiting.push(new Generation(id, request, { context: this.#limits.context, nowMs: this.#clock() }));
  }

  /** Ends a request between two slices; unknown or finished ids are ignored, since an answer may have crossed the call. */
  cancel(id: number): void {
    const generation = [...this.#waiting, ...this.#active].find((one) => one.id === id);
    if (generation !== undefined) this.#finish(generation, "cancelled");
  }

  /** Gives up what is kept for a conversation. */
  forget(conversation: string): void {
    this.#close(this.#kept.take(conversation)?.sequence);
  }

  /** A sequence outside the scheduler's own use; undefined when every one is at work. Give it back with closeSequence. */
  borrowSequence(): number | undefined {
    return this.#openOne();
  }

  closeSequence(sequence: number): void {
    this.#close(sequence);
  }

  /** Borrowed sequences that an abandoned step took with it. */
  lostSequences(count: number): void {
    this.#openSequences -= count;
  }

  /** One slice of a step for as many requests as fit. */
  step(): StepEvent[] {
    if (this.#pending === undefined) {
      this.#admit();
      this.#begin(this.#compose());
    }
    if (this.#pending !== undefined) this.#run(this.#pending);
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #admit(): void {
    while (this.#waiting.length > 0) {
      const generation = this.#waiting[0]!;
      try {
        if (!this.#place(generation)) return;
      } catch (thrown) {
        this.#fail(generation, thrown);
        continue;
      }
      this.#waiting.shift();
      this.#active.push(generation);
    }
  }

  #place(generation: Generation): boolean {
    const { conversation, ids } = generation.request;
    if (this.#kept.fits(conversation, ids)) {
      const kept = this.#kept.take(conversation)!;
      generation.place(kept.sequence, kept.tokens);
      return true;
    }
    this.forget(conversation);
    const sequence = this.#openOne();
    if (sequence !== undefined) generation.place(sequence, []);
    return sequence !== undefined;
  }

  #openOne(): number | undefined {
    if (this.#openSequences >= this.#limits.parallel) {
      const oldest = this.#kept.takeOldest();
      if (oldest === undefined) return undefined;
      this.#close(oldest.sequence);
    }
    const sequence = this.#engine.openSequence();
    this.#openSequences++;
    return sequence;
  }

  #close(sequence: number | undefined): void {
    if (sequence === undefined || sequence < 0 || this.#moves(sequence)) return;
    this.#openSequences--;
    this.#engine.closeSequence(sequence);
  }

  /** In the step under way: it is closed when that ends. */
  #moves(sequence: number): boolean {
    return this.#pending?.shares.some(({ generation }) => generation.sequence === sequence) ?? false;
  }

  /** Every decoding request gets its row; pieces of prefill are dealt one by one in turn, beginning with another request each step. */
  #compose(): Share[] {
    const guesses = this.#guess();
    const decoding = this.#active.filter((one) => !one.prefilling);
    const prefilling = this.#active.filter((one) => one.prefilling);
    const first = prefilling.length > 0 ? this.#turn++ % prefilling.length : 0;
    const queue = [...prefilling.slice(first), ...prefilling.slice(0, first)];
    const planned = new Map<Generation, number>();
    let room = this.#limits.stepRows - decoding.length - [...guesses.values()].flat().length;
    for (let left = this.#pace.pieces(decoding.length); left > 0 && queue.length > 0;) {
      const generation = queue.shift()!;
      const before = planned.get(generation) ?? 0;
      const piece = generation.pieceAfter(before);
      if (piece === 0 || piece > room) continue;
      planned.set(generation, before + piece);
      room -= piece;
      left--;
      queue.push(generation);
    }
    for (const generation of decoding) planned.set(generation, 1);
    return [...planned].map(([generation, count]) => {
      const drafts = guesses.get(generation) ?? [];
      const tokens = [...generation.next(count), ...drafts];
      return { generation, tokens, drafted: drafts.length, samples: generation.samplesAfter(count) };
    });
  }

  #guess(): Map<Generation, number[]> {
    const decoding = this.#active.filter((one) => !one.prefilling);
    try {
      return this.#drafting.guess(decoding);
    } catch (thrown) {
      for (const generation of decoding) this.#fail(generation, thrown);
      return new Map();
    }
  }

  #begin(shares: Share[]): void {
    if (shares.length === 0) return;
    const rows = shares.flatMap(rowsOf);
    const prefillRows = shares.reduce(
      (sum, { generation, tokens }) => sum + (generation.prefilling ? tokens.length : 0),
      0,
    );
    try {
      this.#engine.beginStep(rows);
      this.#pending = { shares, prefillRows, decodeRows: rows.length - prefillRows, elapsedMs: 0 };
    } catch (thrown) {
      for (const { generation } of shares) this.#fail(generation, thrown);
    }
  }

  #run(pending: Pending): void {
    const { shares } = pending;
    if (!shares.some(({ generation }) => this.#active.includes(generation))) return this.#abandon(shares);
    const startMs = this.#clock();
    let done: boolean;
    try {
      done = this.#engine.runStep(STEP_TARGET_MS);
    } catch (thrown) {
      this.#abandon(shares);
      for (const { generation } of shares) this.#failClosed(generation, thrown);
      return;
    }
    const endMs = this.#clock();
    pending.elapsedMs += endMs - startMs;
    if (!done) return;
    this.#pending = undefined;
    this.#pace.record(pending);
    let logitsRow = 0;
    let tokens = 0;
    for (const share of shares) {
      const row = share.samples ? logitsRow : -1;
      if (share.samples) logitsRow += 1 + share.drafted;
      if (this.#active.includes(share.generation)) tokens += this.#advance(share, row);
      else this.#close(share.generation.sequence);
    }
    if (pending.prefillRows > 0) return;
    const drafted = shares.reduce((sum, share) => sum + share.drafted, 0);
    /* Sampling and taking guesses back are part of what a token costs. */
    const elapsedMs = pending.elapsedMs + this.#clock() - endMs;
    this.#drafting.record({ elapsedMs, sequences: shares.length, drafted, tokens });
  }

  #abandon(shares: Share[]): void {
    this.#pending = undefined;
    this.#openSequences -= shares.length;
    this.#engine.abandonStep();
  }

  /** Returns how many tokens the answer grew by. */
  #advance(share: Share, logitsRow: number): number {
    const { generation, tokens, drafted } = share;
    const { id, request, answerTokens } = generation;
    if (generation.prefilling) {
      const done = generation.held.length + tokens.length;
      this.#events.push({ type: "prefill", id, done, total: request.ids.length });
    }
    generation.fed(tokens.slice(0, tokens.length - drafted));
    if (generation.prefilling) return 0;
    try {
      const finish = request.maxTokens <= 0 ? "length" : this.#answer(share, logitsRow);
      if (finish !== undefined) this.#finish(generation, finish);
    } catch (thrown) {
      this.#fail(generation, thrown);
    }
    return generation.answerTokens - answerTokens;
  }

  /** Takes the next token, and one more for each guess that turns out to be that token; guesses from the first wrong one on are taken back. */
  #answer({ generation, tokens, drafted }: Share, logitsRow: number): FinishReason | undefined {
    const guesses = tokens.slice(tokens.length - drafted);
    generation.draftedTokens += drafted;
    for (let right = 0;; right++) {
      const token = generation.forcesNext ? generation.takeForced() : this.#sample(generation, logitsRow + right);
      const taken = generation.accept(token, this.#clock());
      if (taken.send) this.#events.push({ type: "tokens", id: generation.id, tokens: [token] });
      if (taken.finish !== undefined || token !== guesses[right]) {
        if (right < drafted) this.#engine.rewindSequence(generation.sequence, generation.held.length);
        return taken.finish;
      }
      generation.acceptedTokens++;
      generation.fed([token]);
    }
  }

  #sample(generation: Generation, logitsRow: number): number {
    const { request, sequence, answerTokens } = generation;
    return this.#engine.sample(logitsRow, sequence, {
      ...request.sampler,
      answerFrom: request.ids.length,
      draw: answerTokens,
    });
  }

  #finish(generation: Generation, reason: FinishReason): void {
    this.#remove(generation);
    this.#events.push({ type: "finished", id: generation.id, reason, stats: generation.stats(this.#clock()) });
    if (reason === "cancelled") return this.#close(generation.sequence);
    const replaced = this.#kept.keep(generation.request.conversation, {
      sequence: generation.sequence,
      tokens: generation.held,
    });
    this.#close(replaced?.sequence);
  }

  #fail(generation: Generation, thrown: unknown): void {
    this.#failClosed(generation, thrown);
    this.#close(generation.sequence);
  }

  /** For a request whose sequence is gone already. One that was cancelled before has had its last event. */
  #failClosed(generation: Generation, thrown: unknown): void {
    if (!this.#remove(generation)) return;
    const kind = thrown instanceof SurgeError ? thrown.kind : "internal";
    this.#events.push({ type: "failed", id: generation.id, kind, message: messageOf(thrown) });
  }

  #remove(generation: Generation): boolean {
    for (const list of [this.#waiting, this.#active]) {
      const at = list.indexOf(generation);
      if (at >= 0) return list.splice(at, 1).length > 0;
    }
    return false;
  }
}

function rowsOf({ generation, tokens, drafted, samples }: Share): StepRow[] {
  const { sequence, held } = generation;
  return tokens.map((token, i) => ({
    sequence,
    position: held.length + i,
    token,
    logits: samples && i >= tokens.length - 1 - drafted,
    draft: i >= tokens.length - drafted,
  }));
}

function contextFull(promptTokens: number, context: number): SurgeError {
  const message = `The conversation has ${promptTokens} tokens and the context holds ${context}: ` +
    "begin a new one, shorten it or start with a larger --ctx.";
  return new SurgeError("usage", message);
}

/** Refuses limits under which a piece of prefill might never find room beside the decoding requests. */
export function checkLimits(
  { stepRows, parallel, draft, draftTokens }: Omit<SchedulerLimits, "context" | "vocab">,
): void {
  const least = PIECE_TOKENS + (parallel - 1) * (1 + (draft === "none" ? 0 : draftTokens));
  if (stepRows >= least) return;
  throw new SurgeError(
    "config",
    `The plan's stepRows is ${stepRows}; with parallel ${parallel} it must be at least ${least}.`,
  );
}

/** Refuses a prompt that no sequence can hold or no model can read. */
export function checkPrompt(ids: number[], { context, vocab }: { context: number; vocab: number }): void {
  if (ids.length === 0) throw new SurgeError("usage", "The prompt has no tokens; there is nothing to continue.");
  if (ids.length > context) throw contextFull(ids.length, context);
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocab);
  if (wrong !== undefined) {
    throw new SurgeError("usage", `Token ${wrong} is not in the model's vocabulary of ${vocab}.`);
  }
}
