/**
 * Whether drafting pays: time per token with guesses against time per token without, both measured on the steps as they come. It knows
 * no clock and no engine; a step is told to it when it is over.
 *
 * Some plain steps are the measure, then guesses are tried; they go on while they gain, and rest for long where they do not.
 */

/** Below this, guessing is not worth its memory and its noise. */
export const LEAST_GAIN = 1.05;
/** Steps without guesses that are the measure. */
export const PLAIN_STEPS = 8;
/** Steps with guesses between two judgements. */
export const TRIAL_STEPS = 16;
/** Judgements passed, after which the measure is taken anew. */
export const TRIALS = 16;
/** Steps without guesses after a judgement that was not passed. */
export const REST_STEPS = 256;

export interface DecodeStep {
  /** Guessing included. */
  elapsedMs: number;
  /** Requests in the step, one token each at least. */
  sequences: number;
  /** Rows that were guesses. */
  drafted: number;
  /** Tokens that came of it. */
  tokens: number;
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

const perRequest = (step: DecodeStep) => step.elapsedMs / step.sequences;
const sum = (steps: DecodeStep[], field: "tokens" | "sequences") => steps.reduce((total, one) => total + one[field], 0);

export class DraftGain {
  #plain: DecodeStep[] = [];
  #drafted: DecodeStep[] = [];
  #drafting = false;
  /** Steps of the present kind until something changes. */
  #left = PLAIN_STEPS;
  #passed = 0;

  /** Whether the next step may hold guesses. */
  get drafting(): boolean {
    return this.#drafting;
  }

  record(step: DecodeStep): void {
    const last = this.#plain.at(-1) ?? this.#drafted.at(-1);
    if (last !== undefined && last.sequences !== step.sequences) this.#restart();
    if (step.drafted > 0) this.#drafted = [...this.#drafted, step].slice(-TRIAL_STEPS);
    else this.#plain = [...this.#plain, step].slice(-PLAIN_STEPS);
    /* Where there was nothing to guess, a step is a measure like any other, and no trial. */
    if (step.drafted > 0 !== this.#drafting || --this.#left > 0) return;
    if (this.#drafting) this.#judge();
    else this.#change(true, TRIAL_STEPS);
  }

  /** Times of another number of requests say nothing. */
  #restart(): void {
    this.#plain = [];
    this.#drafted = [];
    this.#passed = 0;
    this.#change(false, PLAIN_STEPS);
  }

  #judge(): void {
    if (this.#gain() < LEAST_GAIN) {
      this.#passed = 0;
      this.#change(false, REST_STEPS);
    } else if (++this.#passed % TRIALS === 0) this.#change(false, PLAIN_STEPS);
    else this.#left = TRIAL_STEPS;
  }

  #change(drafting: boolean, steps: number): void {
    this.#drafting = drafting;
    this.#left = steps;
  }

  /** Medians, since another process may hold up a step or two for long. */
  #gain(): number {
    const tokens = sum(this.#drafted, "tokens") / sum(this.#drafted, "sequences");
    return median(this.#plain.map(perRequest)) / median(this.#drafted.map(perRequest)) * tokens;
  }
}
