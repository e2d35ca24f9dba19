/** What models write, against the golden expectations, over every cut: a leak, a loss or a misread value at a boundary shows here. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ChatTemplate } from "../../src/text/chat_template.ts";
import { OutputParser, type Tool } from "../../src/text/output_parser.ts";
import { Tokenizer, type TokenizerJson } from "../../src/text/tokenizer.ts";
import { Utf8Stream } from "../../src/text/utf8_stream.ts";
import { addDelta, emptyAnswer, type GatheredAnswer } from "../support/answer.ts";

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

/** What was sent after each chunk, and at the end. */
function stream(
  one: Pick<Case, "start" | "tools" | "finish">,
  chunks: string[],
): { sent: GatheredAnswer[]; finish_reason: string } {
  const parser = new OutputParser({ start: one.start, tools: one.tools === null ? [] : GOLDEN.tools[one.tools]! });
  const answer = emptyAnswer();
  const sent = chunks.map((chunk) => {
    for (const delta of parser.push(chunk)) addDelta(answer, delta);
    return structuredClone(answer);
  });
  for (const delta of parser.finish()) addDelta(answer, delta);
  const finish_reason = one.finish === "length" ? "length" : parser.calls > 0 ? "tool_calls" : "stop";
  return { sent: [...sent, answer], finish_reason };
}

function collect(one: Pick<Case, "start" | "tools" | "finish">, chunks: string[]): GatheredAnswer {
  return stream(one, chunks).sent.at(-1)!;
}

function expectation(answer: GatheredAnswer, finish_reason: string): Expectation {
  const tool_calls = answer.calls.map((call) => ({
    name: call.name,
    arguments: JSON.parse(call.arguments) as Record<string, unknown>,
  }));
  return { reasoning: answer.reasoning, content: answer.content, tool_calls, finish_reason };
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
    const { sent, finish_reason } = stream(one, [one.text]);
    const whole = sent.at(-1)!;
    expect(accepted(one)).toContain(textOf(expectation(whole, finish_reason)));
    if (one.arguments_contain !== undefined) {
      expect(whole.calls.map((call) => call.arguments).join("")).toContain(one.arguments_contain);
    }
    const characters = [...one.text];
    for (let cut = 1; cut < characters.length; cut++) {
      expect(collect(one, [characters.slice(0, cut).join(""), characters.slice(cut).join("")])).toEqual(whole);
    }
    expect(collect(one, characters)).toEqual(whole);
    expect(collect(one, bytewise(one.text))).toEqual(whole);
    for (const chunks of one.chunkings ?? []) expect(collect(one, chunks)).toEqual(whole);
  });

  test.each(GOLDEN.cases)("what was sent stays: $id", (one) => {
    const { sent } = stream(one, [...one.text]);
    const last = sent.at(-1)!;
    for (const early of sent) {
      expect(last.reasoning.startsWith(early.reasoning)).toBe(true);
      expect(last.content.startsWith(early.content)).toBe(true);
      early.calls.forEach((call, i) => {
        expect(call.name).toBe(last.calls[i]!.name);
        expect(last.calls[i]!.arguments.startsWith(call.arguments)).toBe(true);
      });
    }
  });
});

describe("beyond the golden cases", () => {
  const PIECES = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<function=get_weather>",
    "<function=foo>",
    "<function=",
    "</function>",
    "<parameter=city>",
    "<parameter=days>",
    "<parameter=other>",
    "<parameter=",
    "</parameter>",
    '{"name": "ping"}',
    '{"name": "ping", "arguments": {"a": "\\"}',
    "{",
    "}",
    '"',
    "\\",
    "<",
    ">",
    "\r\n",
    "\n",
    "\r",
    " ",
    "3",
    "x",
    "😀",
  ];
  const BEGINNINGS = [
    "",
    "<tool_call>",
    "<tool_call><function=get_weather>",
    "<tool_call><function=get_weather><parameter=city>",
  ];
  const textOfPieces = fc.tuple(
    fc.constantFrom(...BEGINNINGS),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 16 }),
    fc.constantFrom(...BEGINNINGS),
    fc.array(fc.constantFrom(...PIECES), { maxLength: 16 }),
  ).map((parts) => parts.flat().join(""));

  test("any mixture of tags reads the same however it is cut, and nothing sent is taken back", () => {
    const start = fc.constantFrom("think" as const, "answer" as const);
    fc.assert(
      fc.property(textOfPieces, start, fc.array(fc.nat(120), { maxLength: 4 }), (text, start, cuts) => {
        const one = { start, tools: "main", finish: "stop" } as const;
        const whole = collect(one, [text]);
        for (const call of whole.calls) JSON.parse(call.arguments);
        const characters = [...text];
        const places = [
          0,
          ...cuts.map((cut) => cut % (characters.length + 1)).sort((a, b) => a - b),
          characters.length,
        ];
        const chunks = places.slice(1).map((end, i) => characters.slice(places[i], end).join(""));
        expect(collect(one, chunks)).toEqual(whole);
        const { sent } = stream(one, characters);
        expect(sent.at(-1)!).toEqual(whole);
        for (const early of sent) {
          expect(whole.content.startsWith(early.content) && whole.reasoning.startsWith(early.reasoning)).toBe(true);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test("text of a call is sent while it is written, all but what may be its closer", () => {
    const parser = new OutputParser({ start: "answer", tools: GOLDEN.tools["main"]! });
    const answer = emptyAnswer();
    const push = (text: string) => parser.push(text).forEach((delta) => addDelta(answer, delta));
    push("<tool_call>\n<function=write_file>");
    expect(answer.calls).toEqual([{ name: "write_file", arguments: "" }]);
    push("\n<parameter=content>\none\n");
    expect(answer.calls[0]!.arguments).toBe('{"content": "one');
    push("two\n</para");
    expect(answer.calls[0]!.arguments).toBe('{"content": "one\\ntwo');
    push("meter>\n</function>");
    expect(answer.calls[0]!.arguments).toBe('{"content": "one\\ntwo"}');
  });

  test("arguments rendered by the template and parsed come back equal", () => {
    const properties = { s: { type: "string" }, n: { type: "integer" }, b: { type: "boolean" }, o: { type: "object" } };
    const tools: Tool[] = [{ function: { name: "f", parameters: { type: "object", properties } } }];
    const folder = join(import.meta.dir, "../golden/text");
    const template = new ChatTemplate(
      readFileSync(join(folder, "template/chatml_tools.jinja"), "utf8"),
      new Tokenizer(JSON.parse(readFileSync(join(folder, "tokenizer/small/tokenizer.json"), "utf8")) as TokenizerJson),
    );
    const text = fc.string({
      unit: fc.constantFrom("a", " ", "\n", "\r\n", "<", "</", "'", '"', "\\", "😀", "{", "1"),
    });
    const record = fc.record({ s: text, n: fc.integer(), b: fc.boolean(), o: fc.dictionary(text, text) });
    fc.assert(fc.property(record, (given) => {
      const call = { function: { name: "f", arguments: given } };
      const rendered = template.render([{ role: "user", content: "q" }, {
        role: "assistant",
        content: "",
        tool_calls: [call],
      }], {});
      const parser = new OutputParser({ start: "answer", tools });
      const answer = emptyAnswer();
      const output = rendered.slice(rendered.indexOf("<tool_call>"), rendered.lastIndexOf("<|im_end|>"));
      [...parser.push(output), ...parser.finish()].forEach((delta) => addDelta(answer, delta));
      expect(JSON.parse(answer.calls[0]!.arguments)).toEqual(JSON.parse(JSON.stringify(given)));
    }));
  });
});
