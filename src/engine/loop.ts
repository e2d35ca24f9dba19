/**
 * The engine child's loop: take messages, schedule, one blocking slice of a step, send what came of it.
 *
 * One event-loop turn passes between two slices, otherwise no message would arrive while there is work. Every message that the parent
 * numbers is answered exactly once, whatever is thrown here.
 */
import { type Clock, monotonicClock } from "../base/clock.ts";
import { messageOf, SurgeError } from "../base/errors.ts";
import { accountMemory, checkMemory } from "../plan/memory.ts";
import type { Plan } from "../plan/schema.ts";
import { checkLimits, checkPrompt, Scheduler, STEP_TARGET_MS } from "../sched/scheduler.ts";
import type { Backend, Engine, Probe } from "./backend.ts";
import { BenchJob, checkBench } from "./bench.ts";
import type { Job } from "./job.ts";
import { LogitsJob } from "./logits.ts";
import type { ChildMessage, ParentMessage } from "./protocol.ts";
import { warmFiles } from "./warm.ts";

export interface LoopOptions {
  send: (message: ChildMessage) => void;
  clock?: Clock;
}

interface Work {
  engine: Engine;
  scheduler: Scheduler;
  plan: Plan;
}

type Message<T extends ParentMessage["type"]> = Extract<ParentMessage, { type: T }>;

export class EngineLoop {
  readonly #backend: Backend;
  readonly #send: (message: ChildMessage) => void;
  readonly #clock: Clock;
  readonly #jobs: Job[] = [];
  #probe: { probe: Probe; threads: number; bytes: number } | undefined;
  #work: Work | undefined;
  #turning = false;
  #opening = false;

  constructor(backend: Backend, options: LoopOptions) {
    this.#backend = backend;
    this.#send = options.send;
    this.#clock = options.clock ?? monotonicClock;
  }

  /** Takes one message. Resolves when it is answered or handed to the scheduler. */
  async receive(message: ParentMessage): Promise<void> {
    try {
      if (message.type === "open") await this.#open(message);
      else if (message.type === "generate") this.#generate(message);
      else if (message.type === "logits") this.#startLogits(message);
      else if (message.type === "bench") this.#startBench(message);
      else if (message.type === "machine") this.#machine(message);
      else if (message.type === "placement") this.#placement(message);
      else if (message.type === "cancel") this.#cancel(message.id);
      else this.#work?.scheduler.forget(message.conversation);
    } catch (thrown) {
      if ("id" in message) this.#send(failure(message.id, thrown));
      else throw thrown;
    }
    this.#keepTurning();
  }

  async #open(message: Message<"open">): Promise<void> {
    if (this.#turning || this.#opening) {
      throw new SurgeError("internal", "The engine is at work and cannot open another model.");
    }
    this.#work?.engine.close();
    this.#work = undefined;
    this.#opening = true;
    try {
      await this.#load(message);
    } finally {
      this.#opening = false;
    }
  }

  /** Nothing is taken before everything is checked. */
  async #load({ id, plan, memoryLimitBytes, ...message }: Message<"open">): Promise<void> {
    const vocab = message.manifest.config.vocab;
    const limits = { ...plan, vocab };
    checkLimits(limits);
    const manifest = this.#backend.locate(message.manifest);
    const memory = this.#backend.measure(manifest, plan);
    const warning = checkMemory(accountMemory(memory, { vocab, mlock: plan.mlock }), memoryLimitBytes);
    /* What is copied is read by the copying. Locking reads as well, deaf and mute: it finds the pages there. */
    const warms = warning === undefined && plan.weights === "mapped";
    const warm = async () => {
      const onProgress = (doneBytes: number, totalBytes: number) =>
        this.#send({ type: "loading", id, doneBytes, totalBytes });
      if (warms) await warmFiles(manifest.files, { onProgress, clock: this.#clock });
    };
    if (plan.mlock) await warm();
    const engine = this.#backend.open(manifest, plan);
    if (!plan.mlock) await warm();
    this.#work = { engine, scheduler: new Scheduler(engine, limits, this.#clock), plan };
    this.#send({ type: "opened", id, memory, warning });
  }

  #opened(): Work {
    if (this.#work === undefined) throw new SurgeError("unavailable", "No model is open.");
    return this.#work;
  }

  #generate({ id, request }: Message<"generate">): void {
    try {
      this.#opened().scheduler.add(id, request);
    } catch (thrown) {
      this.#send({ type: "step", events: [failure(id, thrown)] });
    }
  }

  #startLogits({ id, request }: Message<"logits">): void {
    const { engine, scheduler, plan } = this.#opened();
    checkPrompt(request.ids, { context: plan.context, vocab: engine.vocab });
    const sequence = scheduler.borrowSequence();
    if (sequence === undefined) {
      throw new SurgeError("unavailable", "Every sequence is at work; ask for logits again later.");
    }
    try {
      this.#jobs.push(new LogitsJob(engine, { id, sequence, request }));
    } catch (thrown) {
      scheduler.closeSequence(sequence);
      throw thrown;
    }
  }

  #startBench({ id, request }: Message<"bench">): void {
    const { engine, scheduler, plan } = this.#opened();
    checkBench(request, plan);
    const sequences: number[] = [];
    while (sequences.length < request.batch) {
      const sequence = scheduler.borrowSequence();
      if (sequence === undefined) break;
      sequences.push(sequence);
    }
    if (sequences.length < request.batch) {
      for (const sequence of sequences) scheduler.closeSequence(sequence);
      throw new SurgeError("unavailable", "The engine is at work; measure when it rests.");
    }
    const probe = this.#probeFor({ threads: request.threads, bytes: request.probeBytes });
    this.#jobs.push(
      new BenchJob(engine, { id, sequences, request, probe, stepRows: plan.stepRows, clock: this.#clock }),
    );
  }

  #probeFor({ threads, bytes }: { threads: number; bytes: number }): Probe {
    if (this.#probe?.threads !== threads || this.#probe.bytes !== bytes) {
      this.#probe?.probe.close();
      this.#probe = undefined;
      this.#probe = { probe: this.#backend.probe({ threads, bytes }), threads, bytes };
    }
    return this.#probe.probe;
  }

  #machine({ id, measure }: Message<"machine">): void {
    const isa = this.#backend.isa();
    if (measure === undefined) return this.#send({ type: "machine", id, isa });
    const probe = this.#probeFor(measure);
    this.#send({ type: "machine", id, isa, rates: { bytesPerSecond: probe.bandwidth(), int8PerSecond: probe.int8() } });
  }

  #placement({ id }: Message<"placement">): void {
    this.#send({ type: "placement", id, placement: this.#opened().engine.placement() });
  }

  #cancel(id: number): void {
    this.#work?.scheduler.cancel(id);
    const job = this.#jobs.find((one) => one.id === id);
    if (job === undefined) return;
    this.#giveUpJob(job);
    this.#send(failure(id, new SurgeError("interrupted", job.cancelled)));
  }

  #endJob(job: Job): void {
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    for (const sequence of job.sequences) this.#work?.scheduler.closeSequence(sequence);
  }

  #giveUpJob(job: Job): void {
    const lost = job.midStep ? this.#work!.engine.abandonStep() : [];
    this.#work?.scheduler.lostSequences(lost.length);
    this.#jobs.splice(this.#jobs.indexOf(job), 1);
    for (const sequence of job.sequences) {
      if (!lost.includes(sequence)) this.#work?.scheduler.closeSequence(sequence);
    }
    job.abandon();
  }

  #keepTurning(): void {
    const busy = this.#work !== undefined && (this.#work.scheduler.busy || this.#jobs.length > 0);
    if (!busy || this.#turning) return;
    this.#turning = true;
    setImmediate(() => {
      this.#turning = false;
      this.#turn();
      this.#keepTurning();
    });
  }

  #turn(): void {
    const { scheduler } = this.#opened();
    const job = this.#jobs[0];
    if (job?.midStep !== true) {
      const events = scheduler.step();
      if (events.length > 0) this.#send({ type: "step", events });
    }
    if (job !== undefined && !scheduler.midStep) this.#advance(job);
  }

  #advance(job: Job): void {
    try {
      if (!job.advance(STEP_TARGET_MS)) return;
      this.#endJob(job);
      this.#send(job.done());
    } catch (thrown) {
      this.#giveUpJob(job);
      this.#send(failure(job.id, thrown));
    }
  }
}

function failure(id: number, thrown: unknown) {
  const kind = thrown instanceof SurgeError ? thrown.kind : "internal";
  return { type: "failed" as const, id, kind, message: messageOf(thrown) };
}
