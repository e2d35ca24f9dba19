/**
 * Guesses for the next step: from the model's prediction layer or from a request's own text, while that gains time. A guess is only ever
 * checked, never believed, so nothing here can change an answer.
 */
import type { Clock } from "../base/clock.ts";
import { DraftGain } from "./draft_gain.ts";
import type { Generation } from "./generation.ts";
import { PromptLookup } from "./lookup.ts";
import type { StepRow } from "./scheduler.ts";

export interface DraftOptions {
  draft: "none" | "mtp" | "lookup";
  /** Tokens of one guess. */
  draftTokens: number;
}

export interface DraftEngine {
  /** The prediction layer's guess of `count` tokens after each row's own, which follows what its sequence holds. */
  draft(rows: StepRow[], count: number): number[][];
}

export class Drafting {
  readonly #engine: DraftEngine;
  readonly #options: DraftOptions;
  readonly #clock: Clock;
  readonly #gain = new DraftGain();
  readonly #lookups = new WeakMap<Generation, PromptLookup>();
  /** Time that the guesses of the next step took. */
  #guessMs = 0;

  constructor(engine: DraftEngine, options: DraftOptions, clock: Clock) {
    this.#engine = engine;
    this.#options = options;
    this.#clock = clock;
  }

  /** Tokens that are likely to follow what each request feeds next; requests without a guess are left out. */
  guess(decoding: Generation[]): Map<Generation, number[]> {
    this.#guessMs = 0;
    if (this.#options.draft === "none" || !this.#gain.drafting) return new Map();
    const startMs = this.#clock();
    const able = decoding.filter((one) => one.draftRoom > 0);
    const guesses = this.#options.draft === "mtp" ? this.#predict(able) : this.#lookUp(able);
    this.#guessMs = this.#clock() - startMs;
    return guesses;
  }

  /** A step of decoding alone that is over. */
  record(step: { elapsedMs: number; sequences: number; drafted: number; tokens: number }): void {
    this.#gain.record({ ...step, elapsedMs: step.elapsedMs + this.#guessMs });
  }

  #predict(able: Generation[]): Map<Generation, number[]> {
    if (able.length === 0) return new Map();
    const count = Math.min(this.#options.draftTokens, ...able.map((one) => one.draftRoom));
    const rows = able.map(({ sequence, held, pending }) => (
      { sequence, position: held.length, token: pending, logits: true }
    ));
    const guesses = this.#engine.draft(rows, count);
    return new Map(able.map((one, i) => [one, guesses[i]!]));
  }

  #lookUp(able: Generation[]): Map<Generation, number[]> {
    const guesses = able.map((one): [Generation, number[]] => {
      const count = Math.min(this.#options.draftTokens, one.draftRoom);
      return [one, this.#lookupOf(one).guess(count)];
    });
    return new Map(guesses.filter(([, tokens]) => tokens.length > 0));
  }

  /** Up to date with what the request holds and feeds next. */
  #lookupOf(generation: Generation): PromptLookup {
    const lookup = this.#lookups.get(generation) ?? new PromptLookup();
    this.#lookups.set(generation, lookup);
    const { held, pending } = generation;
    while (lookup.length < held.length) lookup.add(held[lookup.length]!);
    if (lookup.length === held.length) lookup.add(pending);
    return lookup;
  }
}
