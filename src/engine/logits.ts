/**
 * Raw logits of a list of tokens into a file: float32 little endian, [rows, vocab]. One call of `advance` is one bounded step.
 * Owns the file until the end; a file that is not complete is not left behind.
 */
import { closeSync, fstatSync, openSync, unlinkSync, writeSync } from "node:fs";
import { messageOf, SurgeError } from "../base/errors.ts";
import { PIECE_TOKENS } from "../sched/pace.ts";
import type { StepRow } from "../sched/scheduler.ts";
import type { Engine } from "./backend.ts";
import type { LogitsRequest } from "./protocol.ts";

export class LogitsJob {
  readonly id: number;
  readonly sequence: number;
  readonly #engine: Engine;
  readonly #request: LogitsRequest;
  readonly #row: Float32Array;
  readonly #fd: number;
  #done = 0;
  rows = 0;

  constructor(engine: Engine, { id, sequence, request }: { id: number; sequence: number; request: LogitsRequest }) {
    this.id = id;
    this.sequence = sequence;
    this.#engine = engine;
    this.#request = request;
    this.#row = new Float32Array(engine.vocab);
    try {
      this.#fd = openSync(request.path, "w");
    } catch (thrown) {
      throw new SurgeError("missing", `${request.path} cannot be written (${(thrown as NodeJS.ErrnoException).code}).`);
    }
  }

  /** Computes the next piece of 64 tokens; true when that was the last. */
  advance(): boolean {
    const { ids, all } = this.#request;
    const tokens = ids.slice(this.#done, this.#done + PIECE_TOKENS);
    const last = this.#done + tokens.length === ids.length;
    const rows: StepRow[] = tokens.map((token, i) => (
      { sequence: this.sequence, position: this.#done + i, token, logits: all || (last && i === tokens.length - 1) }
    ));
    this.#engine.step(rows);
    this.#done += tokens.length;
    const wanted = rows.filter((row) => row.logits).length;
    for (let i = 0; i < wanted; i++) this.#write(i);
    if (last) closeSync(this.#fd);
    return last;
  }

  #write(logitsRow: number): void {
    this.#engine.logits(logitsRow, this.#row);
    const bytes = new Uint8Array(this.#row.buffer);
    try {
      for (let done = 0; done < bytes.length;) done += writeSync(this.#fd, bytes, done, bytes.length - done);
    } catch (thrown) {
      throw new SurgeError("missing", `${this.#request.path} cannot be written: ${messageOf(thrown)}.`);
    }
    this.rows++;
  }

  /** Ends it early. What is not a regular file (a pipe, a terminal) is left alone. */
  abandon(): void {
    const isFile = fstatSync(this.#fd).isFile();
    closeSync(this.#fd);
    if (isFile) unlinkSync(this.#request.path);
  }
}
