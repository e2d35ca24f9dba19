/**
 * Measuring an open model: runs of prefill or decode with the machine's own rates read before each, so that both see the same weather.
 * Tokens are chosen greedily, as an answer's would be; the prompt's are arbitrary.
 */
import { type Clock, monotonicClock } from "../base/clock.ts";
import { SurgeError } from "../base/errors.ts";
import type { StepRow } from "../sched/scheduler.ts";
import type { Engine, Probe } from "./backend.ts";
import type { Job } from "./job.ts";
import type { BenchRequest, BenchRun, ChildMessage, EngineCounters } from "./protocol.ts";

const GREEDY = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repeatPenalty: 1,
  seed: 0,
  logitBias: [],
  answerFrom: 0,
  draw: 0,
};
/** Rows of one step while the depth is filled. */
const FILL_ROWS = 512;
/** Decode steps before the first run: page faults and caches. */
const WARM_STEPS = 2;

export interface BenchNeeds {
  id: number;
  sequences: number[];
  request: BenchRequest;
  probe: Probe;
  stepRows: number;
  clock?: Clock;
}

export class BenchJob implements Job {
  readonly cancelled = "The measurement was cancelled.";
  readonly id: number;
  readonly sequences: number[];
  readonly #engine: Engine;
  readonly #request: BenchRequest;
  readonly #probe: Probe;
  readonly #stepRows: number;
  readonly #clock: Clock;
  readonly #runs: BenchRun[] = [];
  #steps: Generator<StepRow[], void, void>;
  #next: number[];
  #rows: StepRow[] = [];

  constructor(engine: Engine, { id, sequences, request, probe, stepRows, clock }: BenchNeeds) {
    this.id = id;
    this.sequences = sequences;
    this.#engine = engine;
    this.#request = request;
    this.#probe = probe;
    this.#stepRows = stepRows;
    this.#clock = clock ?? monotonicClock;
    this.#next = sequences.map((_, i) => this.#token(i));
    this.#steps = request.phase === "prefill" ? this.#prefill() : this.#decode();
  }

  get midStep(): boolean {
    return this.#rows.length > 0;
  }

  advance(budgetMs: number): boolean {
    if (!this.midStep) {
      const { value, done } = this.#steps.next();
      if (done) return true;
      this.#engine.beginStep(value as StepRow[]);
      this.#rows = value as StepRow[];
    }
    if (this.#engine.runStep(budgetMs)) this.#rows = [];
    return false;
  }

  done(): ChildMessage {
    return { type: "bench_done", id: this.id, runs: this.#runs };
  }

  abandon(): void {
    this.#steps.return();
  }

  /** Arbitrary, the same in every measurement, and rarely the same twice, so that experts are chosen as by text. */
  #token(i: number): number {
    return (Math.imul(i + 1, 2654435761) >>> 0) % this.#engine.vocab;
  }

  *#prefill(): Generator<StepRow[], void, void> {
    const { tokens, depth, repeats } = this.#request;
    for (let repeat = 0; repeat < repeats; repeat++) {
      yield* this.#fill(depth);
      const machine = this.#rates();
      const before = this.#engine.counters();
      const startMs = this.#clock();
      for (let at = 0; at < tokens; at += this.#stepRows) {
        yield this.#prompt(0, depth + at, Math.min(this.#stepRows, tokens - at));
      }
      this.#runs.push({ stepMs: [this.#clock() - startMs], machine, ...difference(before, this.#engine.counters()) });
      this.#restart();
    }
  }

  *#decode(): Generator<StepRow[], void, void> {
    const { tokens, depth, repeats } = this.#request;
    yield* this.#fill(depth);
    let position = depth;
    for (let step = 0; step < WARM_STEPS; step++) yield* this.#decodeStep(position++);
    for (let repeat = 0; repeat < repeats; repeat++) {
      const machine = this.#rates();
      const before = this.#engine.counters();
      const stepMs: number[] = [];
      for (let step = 0; step < tokens; step++) {
        const startMs = this.#clock();
        yield* this.#decodeStep(position++);
        stepMs.push(this.#clock() - startMs);
      }
      this.#runs.push({ stepMs, machine, ...difference(before, this.#engine.counters()) });
    }
  }

  *#decodeStep(position: number): Generator<StepRow[], void, void> {
    yield this.sequences.map((sequence, i) => ({ sequence, position, token: this.#next[i]!, logits: true }));
    this.#next = this.sequences.map((sequence, i) => this.#engine.sample(i, sequence, GREEDY));
  }

  *#fill(depth: number): Generator<StepRow[], void, void> {
    const most = Math.min(FILL_ROWS, this.#stepRows);
    for (let index = 0; index < this.sequences.length; index++) {
      for (let at = 0; at < depth; at += most) yield this.#prompt(index, at, Math.min(most, depth - at));
    }
  }

  #prompt(index: number, from: number, count: number): StepRow[] {
    const sequence = this.sequences[index]!;
    return Array.from({ length: count }, (_, i) => (
      { sequence, position: from + i, token: this.#token(from + i), logits: i === count - 1 }
    ));
  }

  #rates() {
    return { bytesPerSecond: this.#probe.bandwidth(), int8PerSecond: this.#probe.int8() };
  }

  #restart(): void {
    this.#engine.closeSequence(this.sequences[0]!);
    this.sequences[0] = this.#engine.openSequence();
  }
}

function difference(before: EngineCounters, after: EngineCounters): Pick<BenchRun, "bytes" | "macs" | "ops"> {
  const ops = after.ops.map((op, i) => {
    const past = before.ops[i]!;
    return { name: op.name, ns: op.ns - past.ns, bytes: op.bytes - past.bytes, macs: op.macs - past.macs };
  });
  const sum = (field: "bytes" | "macs") => ops.reduce((total, op) => total + op[field], 0);
  return { ops, bytes: sum("bytes"), macs: sum("macs") };
}

/** Refuses what the plan has no room for. */
export function checkBench(request: BenchRequest, limits: { context: number; parallel: number }): void {
  const { phase, depth, batch, tokens, repeats } = request;
  const longest = depth + (phase === "decode" ? tokens * repeats + WARM_STEPS : tokens);
  if (longest > limits.context) {
    throw new SurgeError(
      "usage",
      `The measurement needs a context of ${longest} tokens; the plan's is ${limits.context}.`,
    );
  }
  if (batch > limits.parallel || (phase === "prefill" && batch !== 1)) {
    throw new SurgeError("usage", `A batch of ${batch} cannot be measured: the plan has ${limits.parallel} sequences.`);
  }
}
