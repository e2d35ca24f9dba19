/** Deltas of the output parser put together again, for tests that look at whole answers. */
import type { ParsedDelta } from "../../src/text/output_parser.ts";

export interface GatheredAnswer {
  reasoning: string;
  content: string;
  /** `arguments`: the JSON text as it was sent. */
  calls: Array<{ name: string; arguments: string }>;
}

export function emptyAnswer(): GatheredAnswer {
  return { reasoning: "", content: "", calls: [] };
}

/** Adds a delta; fails where a call is sent twice, out of order, or after its arguments. */
export function addDelta(answer: GatheredAnswer, delta: ParsedDelta): void {
  if (delta.kind === "tool_call") {
    if (delta.index !== answer.calls.length) throw new Error(`call ${delta.index} after ${answer.calls.length} calls`);
    answer.calls.push({ name: delta.name, arguments: "" });
  } else if (delta.kind === "tool_arguments") {
    if (delta.index !== answer.calls.length - 1) throw new Error(`arguments of call ${delta.index} are out of order`);
    answer.calls[delta.index]!.arguments += delta.text;
  } else answer[delta.kind] += delta.text;
}
