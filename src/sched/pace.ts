/**
 * How much prefill fits into one step. Owns the measured times and nothing else.
 *
 * Invariant: time decides how many pieces go into a step, never where a piece ends, so that timing cannot choose rounding.
 */

/** A prefill piece ends on a multiple of this many tokens from its sequence's start. */
export const PIECE_TOKENS = 64;

/** For a first step of prefill alone, before any speed is known: slices keep it interruptible. */
const FIRST_PIECES = 4;

/** Weight of the newest measurement; the rest is the past's. */
const NEWEST = 0.5;

function blend(past: number | undefined, measured: number): number {
  return past === undefined ? measured : past + (measured - past) * NEWEST;
}

export class Pace {
  readonly #mixedMs: number;
  readonly #aloneMs: number;
  #prefillRowMs: number | undefined;
  #decodeMs: number | undefined;

  /** Targets for a step with decoding requests in it, and for one of prefill alone. */
  constructor({ mixedMs, aloneMs }: { mixedMs: number; aloneMs: number }) {
    this.#mixedMs = mixedMs;
    this.#aloneMs = aloneMs;
  }

  /** Pieces for the next step, at least one: a step must get somewhere even where a single piece takes longer than the target. */
  pieces(decodeRows: number): number {
    if (this.#prefillRowMs === undefined) return decodeRows > 0 ? 1 : FIRST_PIECES;
    const budgetMs = decodeRows > 0 ? this.#mixedMs - (this.#decodeMs ?? 0) : this.#aloneMs;
    return Math.max(1, Math.floor(budgetMs / Math.max(1e-3, this.#prefillRowMs * PIECE_TOKENS)));
  }

  record(step: { prefillRows: number; decodeRows: number; elapsedMs: number }): void {
    if (step.prefillRows === 0) {
      this.#decodeMs = blend(this.#decodeMs, step.elapsedMs);
      return;
    }
    const decodeMs = step.decodeRows > 0 ? this.#decodeMs ?? 0 : 0;
    this.#prefillRowMs = blend(this.#prefillRowMs, Math.max(0, step.elapsedMs - decodeMs) / step.prefillRows);
  }
}
