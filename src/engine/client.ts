/**
 * The engine as the rest of the program sees it. The engine itself runs in a child process of the same program; this file starts it,
 * numbers the requests, hands out answers and turns the child's death into a sentence. It never loads the C library.
 *
 * Invariant: every request ends exactly once: finished, failed, or failed by the child's death. After a death `open` starts a new child.
 */
import { join } from "node:path";
import { log } from "../base/log.ts";
import { messageOf, SurgeError } from "../base/errors.ts";
import type { Manifest } from "../model/manifest.ts";
import { readMachine } from "../plan/machine.ts";
import type { Plan } from "../plan/schema.ts";
import type { FinishReason, GenerateRequest, GenerateStats } from "../sched/request.ts";
import { ChildProcess, type Death } from "./child_process.ts";
import { deathError } from "./death.ts";
import { Generation } from "./generation.ts";
import type {
  BenchRequest,
  BenchRun,
  ChildMessage,
  LogitsRequest,
  MachineRates,
  MemoryUse,
  ParentMessage,
  Placement,
  StepEvent,
} from "./protocol.ts";

export type {
  BenchRequest,
  BenchRun,
  FinishReason,
  GenerateRequest,
  GenerateStats,
  LogitsRequest,
  MachineRates,
  MemoryUse,
  Placement,
};
export type { Generation } from "./generation.ts";

/** The hidden command under which the program is an engine child; the fixed second word of the child's command line. */
export const ENGINE_CHILD_COMMAND = "engine-child";

export interface OpenOptions {
  /** Anonymous memory the engine may take; the machine's available memory where left out. */
  memoryLimitBytes?: number;
  onProgress?: (doneBytes: number, totalBytes: number) => void;
}

export interface Opened {
  memory: MemoryUse;
  /** One sentence, when the weights do not fit into memory. */
  warning?: string;
}

export interface GenerateOptions {
  /** Aborting it cancels the request: it finishes with reason "cancelled". */
  signal?: AbortSignal;
  onPrefill?: (done: number, total: number) => void;
}

/** How this very program is started as an engine child. A compiled program is reached by /proc, so that it may be moved or deleted. */
function ownCommand(): string[] {
  if (Bun.isStandaloneExecutable) return ["/proc/self/exe", ENGINE_CHILD_COMMAND];
  return [process.execPath, join(import.meta.dir, "..", "main.ts"), ENGINE_CHILD_COMMAND];
}

type Reply = Extract<ChildMessage, { type: "opened" | "logits_done" | "bench_done" | "machine" | "placement" }>;
type Ask = Extract<ParentMessage, { type: "open" | "logits" | "bench" | "machine" | "placement" }>;

interface Call {
  resolve: (reply: Reply) => void;
  reject: (error: SurgeError) => void;
  onProgress?: OpenOptions["onProgress"];
}

export class EngineClient {
  readonly #command: string[];
  readonly #calls = new Map<number, Call>();
  readonly #generations = new Map<number, Generation>();
  #child: ChildProcess | undefined;
  #manifest: Manifest | undefined;
  #nextId = 1;

  constructor(command: string[]) {
    this.#command = command;
  }

  /** The child's process id, for diagnostics; undefined while none runs. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Makes manifest and plan real, in a new child where none is alive; an engine that was open is closed first. */
  async open(manifest: Manifest, plan: Plan, options: OpenOptions = {}): Promise<Opened> {
    const memoryLimitBytes = options.memoryLimitBytes ?? readMachine().availableBytes;
    this.#child ??= this.#spawn();
    this.#manifest = manifest;
    const id = this.#nextId++;
    const reply = await this.#call({ type: "open", id, manifest, plan, memoryLimitBytes }, options.onProgress);
    if (reply.type !== "opened") throw new SurgeError("internal", `The engine answered ${reply.type} to open.`);
    return { memory: reply.memory, warning: reply.warning };
  }

  /** Token batches as they come; `result` of the generation tells why it ended. Failures are thrown by both. */
  generate(request: GenerateRequest, options: GenerateOptions = {}): Generation {
    const id = this.#nextId++;
    const cancel = () => this.#tell({ type: "cancel", id });
    const generation = new Generation({ ...options, cancel, onEnd: () => this.#generations.delete(id) });
    this.#generations.set(id, generation);
    if (!this.#tell({ type: "generate", id, request })) generation.fail(notRunning());
    return generation;
  }

  /** Computes raw logits into a file; the signal ends it early with an "interrupted" error. */
  async logits(
    request: LogitsRequest,
    options: { signal?: AbortSignal } = {},
  ): Promise<{ rows: number; vocab: number }> {
    const reply = await this.#cancellable({ type: "logits", id: this.#nextId++, request }, options.signal);
    if (reply.type !== "logits_done") throw new SurgeError("internal", `The engine answered ${reply.type} to logits.`);
    return { rows: reply.rows, vocab: reply.vocab };
  }

  async #cancellable(message: Ask, signal: AbortSignal | undefined): Promise<Reply> {
    const cancel = () => this.#tell({ type: "cancel", id: message.id });
    if (signal?.aborted) throw new SurgeError("interrupted", "It was cancelled before it began.");
    signal?.addEventListener("abort", cancel);
    try {
      return await this.#call(message);
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  /** Measures the open model. The signal ends it early with an "interrupted" error. */
  async bench(request: BenchRequest, options: { signal?: AbortSignal } = {}): Promise<BenchRun[]> {
    const reply = await this.#cancellable({ type: "bench", id: this.#nextId++, request }, options.signal);
    if (reply.type !== "bench_done") throw new SurgeError("internal", `The engine answered ${reply.type} to bench.`);
    return reply.runs;
  }

  /** The kernels in use and, where asked, the machine's rates. Needs no model; starts the child where none runs. */
  async machine(measure?: { threads: number; bytes: number }): Promise<{ isa: string; rates?: MachineRates }> {
    this.#child ??= this.#spawn();
    const reply = await this.#call({ type: "machine", id: this.#nextId++, ...(measure && { measure }) });
    if (reply.type !== "machine") throw new SurgeError("internal", `The engine answered ${reply.type} to machine.`);
    return { isa: reply.isa, ...(reply.rates && { rates: reply.rates }) };
  }

  /** Pages and processors of the open engine as they are now. */
  async placement(): Promise<Placement> {
    const reply = await this.#call({ type: "placement", id: this.#nextId++ });
    if (reply.type !== "placement") throw new SurgeError("internal", `The engine answered ${reply.type} to placement.`);
    return reply.placement;
  }

  /** Gives up the sequence kept for a conversation. */
  forget(conversation: string): void {
    this.#tell({ type: "forget", conversation });
  }

  /** Ends the child. What was running fails. */
  async close(): Promise<void> {
    await this.#child?.close();
  }

  #spawn(): ChildProcess {
    const child: ChildProcess = new ChildProcess(this.#command, {
      onMessage: (message) => this.#receive(message),
      onDeath: (death) => {
        if (this.#child === child) this.#child = undefined;
        this.#buryAll(death);
      },
    });
    return child;
  }

  #tell(message: ParentMessage): boolean {
    return this.#child?.send(message) ?? false;
  }

  #call(
    message: Ask,
    onProgress?: OpenOptions["onProgress"],
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#calls.set(message.id, { resolve, reject, onProgress });
      if (this.#tell(message)) return;
      this.#calls.delete(message.id);
      reject(notRunning());
    });
  }

  #receive(message: ChildMessage): void {
    if (message.type === "step") {
      for (const event of message.events) this.#deliver(event);
      return;
    }
    const call = this.#calls.get(message.id);
    if (message.type === "loading") return call?.onProgress?.(message.doneBytes, message.totalBytes);
    this.#calls.delete(message.id);
    if (message.type === "failed") call?.reject(new SurgeError(message.kind, message.message));
    else call?.resolve(message);
  }

  #deliver(event: StepEvent): void {
    const generation = this.#generations.get(event.id);
    if (event.type === "tokens") generation?.push(event.tokens);
    else if (event.type === "prefill") generation?.prefill(event.done, event.total);
    else if (event.type === "finished") generation?.finish({ reason: event.reason, stats: event.stats });
    else generation?.fail(new SurgeError(event.kind, event.message));
  }

  #buryAll(death: Death): void {
    const error = this.#explain(death);
    if (!death.wanted) log.info(`engine child ${death.pid} ended: ${death.lastLine || "it said nothing"}`);
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
    for (const generation of [...this.#generations.values()]) generation.fail(error);
  }

  #explain(death: Death): SurgeError {
    try {
      return deathError(death, this.#manifest);
    } catch (thrown) {
      return new SurgeError("internal", `The engine stopped and why could not be found out: ${messageOf(thrown)}`);
    }
  }
}

function notRunning(): SurgeError {
  return new SurgeError("unavailable", "The engine is not running; open the model first.");
}

/** An engine client; the child starts with the first `open`. `command` starts another program as the child (tests). */
export function startEngine(options: { command?: string[] } = {}): EngineClient {
  return new EngineClient(options.command ?? ownCommand());
}
