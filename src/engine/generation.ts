/**
 * One answer as its reader sees it: batches of tokens to iterate over, and a result. Tokens wait here until they are read; an answer's
 * length bounds them. Invariant: it ends once; after the end every batch that arrived before it can still be read.
 */
import { SurgeError } from "../base/errors.ts";
import type { FinishReason, GenerateStats } from "../sched/request.ts";

export interface GenerationResult {
  reason: FinishReason;
  stats: GenerateStats;
}

export interface GenerationHooks {
  signal?: AbortSignal;
  onPrefill?: (done: number, total: number) => void;
  /** Asks the engine to stop; the end comes later, by `finish`. */
  cancel: () => void;
  onEnd: () => void;
}

export class Generation implements AsyncIterable<number[]> {
  /** How it ended; rejects with a SurgeError where it failed. */
  readonly result: Promise<GenerationResult>;
  readonly #hooks: GenerationHooks;
  readonly #settle: { resolve: (result: GenerationResult) => void; reject: (error: SurgeError) => void };
  #batch: number[] = [];
  #ended = false;
  #error: SurgeError | undefined;
  #wake: () => void = () => {};

  constructor(hooks: GenerationHooks) {
    this.#hooks = hooks;
    const { promise, resolve, reject } = Promise.withResolvers<GenerationResult>();
    this.result = promise;
    this.#settle = { resolve, reject };
    /* Who only iterates learns of a failure there. */
    promise.catch(() => {});
    hooks.signal?.addEventListener("abort", this.#cancel);
    if (hooks.signal?.aborted) queueMicrotask(this.#cancel);
  }

  readonly #cancel = (): void => {
    if (!this.#ended) this.#hooks.cancel();
  };

  push(tokens: number[]): void {
    if (this.#ended) return;
    for (const token of tokens) this.#batch.push(token);
    this.#wake();
  }

  prefill(done: number, total: number): void {
    if (!this.#ended) this.#hooks.onPrefill?.(done, total);
  }

  finish(result: GenerationResult): void {
    if (this.#ended) return;
    this.#end();
    this.#settle.resolve(result);
  }

  fail(error: SurgeError): void {
    if (this.#ended) return;
    this.#error = error;
    this.#end();
    this.#settle.reject(error);
  }

  #end(): void {
    this.#ended = true;
    this.#hooks.signal?.removeEventListener("abort", this.#cancel);
    this.#hooks.onEnd();
    this.#wake();
  }

  /** For one reader. Leaving the loop early cancels the request. */
  async *[Symbol.asyncIterator](): AsyncGenerator<number[], void, void> {
    try {
      while (true) {
        if (this.#batch.length > 0) {
          const batch = this.#batch;
          this.#batch = [];
          yield batch;
        } else if (this.#ended) {
          break;
        } else {
          await new Promise<void>((resolve) => this.#wake = resolve);
        }
      }
    } finally {
      this.#cancel();
    }
    if (this.#error !== undefined) throw this.#error;
  }
}
