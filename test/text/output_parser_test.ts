/** What models write, against the golden expectations, over every cut: a leak, a loss or a misread value at a boundary shows here. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { OutputParser, type ParsedDelta } from "../../src/text/output_parser.ts";
import type { Tool } from "../../src/text/tool_call.ts";
import { Utf8Stream } from "../../src/text/utf8_stream.ts";

interface Expectation {
  reasoning: string;
  content: string;
  tool_calls: Array<{ name: string; arguments: Record<string, unknown> }>;
  finish_reason: string;
}

interface Case {
  id: string;
  start: "think" | "answer";
  tools: string | null;
  text: string;
  finish: "stop" | "length";
  expect: Expectation;
  also_accepted?: Array<Partial<Expectation>>;
  arguments_contain?: string;
  level: "must" | "should";
  chunkings?: string[][];
}

const GOLDEN = JSON.parse(readFileSync(join(import.meta.dir, "../golden/text/parse/parse.json"), "utf8")) as {
  tools: Record<string, Tool[]>;
  cases: Case[];
};

interface Outcome extends Expectation {
  raw: string[];
}

function collect(one: Case, chunks: string[]): Outcome {
  const parser = new OutputParser({ start: one.start, tools: one.tools === null ? [] : GOLDEN.tools[one.tools]! });
  const outcome: Outcome = { reasoning: "", content: "", tool_calls: [], finish_reason: "", raw: [] };
  const add = (delta: ParsedDelta) => {
    if (delta.kind !== "tool_call") outcome[delta.kind] += delta.text;
    else {
      expect(delta.index).toBe(outcome.tool_calls.length);
      outcome.raw.push(delta.call.arguments);
      outcome.tool_calls.push({
        name: delta.call.name,
        arguments: JSON.parse(delta.call.arguments) as Record<string, unknown>,
      });
    }
  };
  for (const chunk of chunks) parser.push(chunk).forEach(add);
  parser.finish().forEach(add);
  outcome.finish_reason = one.finish === "length" ? "length" : parser.calls > 0 ? "tool_calls" : "stop";
  return outcome;
}

/** As text, so that the order of keys counts. */
function textOf(value: Expectation): string {
  return JSON.stringify([value.reasoning, value.content, value.tool_calls, value.finish_reason]);
}

function accepted(one: Case): string[] {
  return [one.expect, ...(one.also_accepted ?? []).map((other) => ({ ...one.expect, ...other }))].map(textOf);
}

function bytewise(text: string): string[] {
  const stream = new Utf8Stream();
  return [...Buffer.from(text)].map((byte) => stream.push(Uint8Array.of(byte)));
}

describe("golden outputs", () => {
  test.each(GOLDEN.cases)("$level $id", (one) => {
    const whole = collect(one, [one.text]);
    expect(accepted(one)).toContain(textOf(whole));
    if (one.arguments_contain !== undefined) expect(whole.raw.join("")).toContain(one.arguments_contain);
    const characters = [...one.text];
    for (let cut = 1; cut < characters.length; cut++) {
      expect(collect(one, [characters.slice(0, cut).join(""), characters.slice(cut).join("")])).toEqual(whole);
    }
    expect(collect(one, characters)).toEqual(whole);
    expect(collect(one, bytewise(one.text))).toEqual(whole);
    for (const chunks of one.chunkings ?? []) expect(collect(one, chunks)).toEqual(whole);
  });
});
