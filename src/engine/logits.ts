/**
 * Raw logits of a list of tokens into a file: float32 little endian, [rows, vocab]. One call of `advance` is one slice of a step.
 * Owns the file until the end; a file that is not complete is not left behind.
 */
import { closeSync, fstatSync, openSync, unlinkSync, writeSync } from "node:fs";
import { messageOf, SurgeError } from "../base/errors.ts";
import { PIECE_TOKENS } from "../sched/pace.ts";
import type { StepRow } from "../sched/scheduler.ts";
import type { Engine } from "./backend.ts";
import type { Job } from "./job.ts";
import type { ChildMessage, LogitsRequest } from "./protocol.ts";

export class LogitsJob implements Job {
  readonly cancelled = "Computing logits was cancelled.";
  readonly id: number;
  readonly sequences: readonly number[];
  readonly #engine: Engine;
  readonly #request: LogitsRequest;
  readonly #row: Float32Array;
  readonly #fd: number;
  #done = 0;
  #rows: StepRow[] = [];
  #written = 0;

  constructor(engine: Engine, { id, sequence, request }: { id: number; sequence: number; request: LogitsRequest }) {
    this.id = id;
    this.sequences = [sequence];
    this.#engine = engine;
    this.#request = request;
    this.#row = new Float32Array(engine.vocab);
    try {
      this.#fd = openSync(request.path, "w");
    } catch (thrown) {
      throw new SurgeError("missing", `${request.path} cannot be written (${(thrown as NodeJS.ErrnoException).code}).`);
    }
  }

  /** A step has begun and is not done: the engine takes no other. */
  get midStep(): boolean {
    return this.#rows.length > 0;
  }

  /** Goes on with a piece of 64 tokens, or begins the next; true when everything is written. */
  advance(budgetMs: number): boolean {
    if (!this.midStep) this.#begin();
    if (!this.#engine.runStep(budgetMs)) return false;
    const wanted = this.#rows.filter((row) => row.logits).length;
    this.#done += this.#rows.length;
    this.#rows = [];
    for (let i = 0; i < wanted; i++) this.#write(i);
    const last = this.#done === this.#request.ids.length;
    if (last) closeSync(this.#fd);
    return last;
  }

  done(): ChildMessage {
    return { type: "logits_done", id: this.id, rows: this.#written, vocab: this.#engine.vocab };
  }

  #begin(): void {
    const { ids, all } = this.#request;
    const tokens = ids.slice(this.#done, this.#done + PIECE_TOKENS);
    const rows = tokens.map((token, i) => {
      const position = this.#done + i;
      return { sequence: this.sequences[0]!, position, token, logits: all || position === ids.length - 1 };
    });
    this.#engine.beginStep(rows);
    this.#rows = rows;
  }

  #write(logitsRow: number): void {
    this.#engine.logits(logitsRow, this.#row);
    const bytes = new Uint8Array(this.#row.buffer);
    try {
      for (let done = 0; done < bytes.length;) done += writeSync(this.#fd, bytes, done, bytes.length - done);
    } catch (thrown) {
      throw new SurgeError("missing", `${this.#request.path} cannot be written: ${messageOf(thrown)}.`);
    }
    this.#written++;
  }

  /** Ends it early. What is not a regular file (a pipe, a terminal) is left alone. */
  abandon(): void {
    const isFile = fstatSync(this.#fd).isFile();
    closeSync(this.#fd);
    if (isFile) unlinkSync(this.#request.path);
  }
}
