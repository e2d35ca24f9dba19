/** Work of the engine child beside generations: it borrows sequences, advances in slices and ends with one message. */
import type { ChildMessage } from "./protocol.ts";

export interface Job {
  readonly id: number;
  /** Borrowed from the scheduler, given back at the end; an abandoned step takes those it moves with it. */
  readonly sequences: readonly number[];
  /** A step has begun and is not done: the engine takes no other. */
  readonly midStep: boolean;
  /** Goes on for about `budgetMs`; true when the job is done. */
  advance(budgetMs: number): boolean;
  /** The answer, after advance() returned true. */
  done(): ChildMessage;
  /** Ends it early and leaves nothing behind. */
  abandon(): void;
  /** What is said to who asked when it is cancelled. */
  readonly cancelled: string;
}
