/**
 * An engine without weights that keeps C's contract: positions must follow, rows of a sequence must be adjacent, limits hold.
 * It answers with the sum of what a sequence holds, modulo its vocabulary, so that a wrong history gives a wrong answer.
 */
import type { SamplerOptions } from "../../src/sched/request.ts";
import type { StepEngine, StepRow } from "../../src/sched/scheduler.ts";

export const GREEDY: SamplerOptions = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repeatPenalty: 1,
  seed: 1,
  logitBias: [],
};

export interface FakeLimits {
  sequences: number;
  stepRows: number;
  vocab: number;
}

export class FakeEngine implements StepEngine {
  readonly vocab: number;
  readonly steps: StepRow[][] = [];
  readonly draws: number[] = [];
  /** Open sequences and the tokens they hold. */
  readonly open = new Map<number, number[]>();
  /** Thrown by the next step or sample, once. */
  failStep: Error | undefined;
  failSample: Error | undefined;
  /** Called in each step: tests let time pass here. */
  onStep: (rows: StepRow[]) => void = () => {};
  readonly #limits: FakeLimits;
  /** By logits row: its sequence and how much that held then. */
  #sampled: Array<{ sequence: number; length: number }> = [];
  /** By sequence: the least length to go back to. */
  readonly #certain = new Map<number, number>();
  /** Guesses after what a sequence would hold; every one is right unless a test says otherwise. */
  guess: (held: number[], count: number) => number[] = (held, count) => this.#goOn(held, count);
  readonly drafts: number[] = [];

  constructor(limits: FakeLimits) {
    this.#limits = limits;
    this.vocab = limits.vocab;
  }

  openSequence(): number {
    for (let i = 0; i < this.#limits.sequences; i++) {
      if (this.open.has(i)) continue;
      this.open.set(i, []);
      return i;
    }
    throw new Error("all sequences are in use");
  }

  closeSequence(sequence: number): void {
    if (this.#left > 0 && this.#rows.some((row) => row.sequence === sequence)) {
      throw new Error(`sequence ${sequence} is in the step that is under way`);
    }
    if (!this.open.delete(sequence)) throw new Error(`sequence ${sequence} is not open`);
  }

  /** Slices that every step takes; tests cancel between them. */
  slices = 1;
  #left = 0;
  #rows: StepRow[] = [];
  readonly budgets: number[] = [];

  beginStep(rows: StepRow[]): void {
    if (this.#left > 0) throw new Error("a step is under way");
    this.#check(rows);
    this.#rows = rows;
    this.#left = this.slices;
  }

  runStep(budgetMs: number): boolean {
    if (this.#left === 0) throw new Error("no step is under way");
    this.budgets.push(budgetMs);
    if (--this.#left > 0) return false;
    this.step(this.#rows);
    return true;
  }

  abandonStep(): number[] {
    if (this.#left === 0) throw new Error("no step is under way");
    this.#left = 0;
    const sequences = [...new Set(this.#rows.map((row) => row.sequence))];
    for (const sequence of sequences) this.open.delete(sequence);
    return sequences;
  }

  counters() {
    return {
      steps: this.steps.length,
      rows: 0,
      ops: [{ name: "head", ns: 0, bytes: this.steps.length * 100, macs: 0 }],
    };
  }

  placement() {
    const none = { mappedBytes: 0, residentBytes: 0, anonHugeBytes: 0, fileHugeBytes: 0, lockedBytes: 0 };
    return { weights: none, arena: none, cpus: [0], pinnedThreads: 0 };
  }

  step(rows: StepRow[]): void {
    for (const row of rows) {
      const held = this.open.get(row.sequence);
      if (held === undefined || held.length !== row.position) throw new Error(`row at ${row.position} is not due`);
      held.push(row.token);
      if (row.draft !== true) this.#certain.set(row.sequence, held.length);
    }
    this.#sampled = rows.filter((row) => row.logits).map((row) => (
      { sequence: row.sequence, length: row.position + 1 }
    ));
    this.steps.push(rows);
    this.onStep(rows);
  }

  #check(rows: StepRow[]): void {
    if (rows.length === 0 || rows.length > this.#limits.stepRows) throw new Error(`a step of ${rows.length} rows`);
    const failure = this.failStep;
    this.failStep = undefined;
    if (failure !== undefined) throw failure;
    this.#checkAdjacent(rows);
  }

  #checkAdjacent(rows: StepRow[]): void {
    const spans = rows.filter((row, i) => row.sequence !== rows[i - 1]?.sequence);
    if (new Set(spans.map((row) => row.sequence)).size !== spans.length) {
      throw new Error("rows of a sequence are not adjacent");
    }
  }

  sample(logitsRow: number, sequence: number, options: { draw: number }): number {
    const row = this.#sampled[logitsRow];
    if (row?.sequence !== sequence) throw new Error(`logits row ${logitsRow} is not sequence ${sequence}'s`);
    const failure = this.failSample;
    this.failSample = undefined;
    if (failure !== undefined) throw failure;
    this.draws.push(options.draw);
    return this.answerTo(this.open.get(sequence)!.slice(0, row.length));
  }

  #goOn(held: number[], count: number): number[] {
    const all = [...held];
    while (all.length < held.length + count) all.push(this.answerTo(all));
    return all.slice(held.length);
  }

  draft(rows: StepRow[], count: number): number[][] {
    if (this.#left > 0) throw new Error("a step is under way");
    this.drafts.push(count);
    return rows.map(({ sequence, position, token }) => {
      const held = this.open.get(sequence);
      if (held?.length !== position) throw new Error(`a guess at ${position} is not due`);
      return this.guess([...held, token], count);
    });
  }

  rewindSequence(sequence: number, length: number): void {
    const held = this.open.get(sequence);
    if (held === undefined || length > held.length || length < this.#certain.get(sequence)!) {
      throw new Error(`sequence ${sequence} cannot go back to ${length}`);
    }
    held.length = length;
  }

  answerTo(held: number[]): number {
    return held.reduce((sum, token) => sum + token, 1) % this.vocab;
  }

  logits(logitsRow: number, into: Float32Array): void {
    const { sequence, length } = this.#sampled[logitsRow]!;
    into.fill(sequence);
    into[0] = this.answerTo(this.open.get(sequence)!.slice(0, length));
  }

  close(): void {
    this.open.clear();
  }
}
