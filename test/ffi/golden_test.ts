/**
 * The engine against Hugging Face transformers on every golden model: prefill, token by token, chunk boundaries, batches, both file
 * formats. A wrong norm, head order, gate, transform, rope or routing rule shows here as an error thousands of times the tolerance.
 * Tolerances: test/golden/models/README.md (float32 arithmetic on exact weights: max 2e-3, rms 1e-4).
 */
import { describe, expect, test } from "bun:test";
import { difference, goldenModels, readFloats } from "../support/golden.ts";
import { feed, GREEDY, greedy, openNative } from "../support/native.ts";

const MAX = 2e-3;
const RMS = 1e-4;
const MODELS = goldenModels();

function byName(name: string) {
  return MODELS.find((model) => model.name === name)!;
}

test("the golden folder is complete", () => expect(MODELS.length).toBe(24));

describe.each(MODELS)("$name", (model) => {
  test("last logits and greedy ids of every prompt", () => {
    const engine = openNative(model.path);
    const want = readFloats(model.folder, model.cases.last_logits);
    for (const { ids, logits_row, greedy: expected } of model.cases.cases) {
      const got = feed(engine, ids).subarray((ids.length - 1) * engine.vocab);
      const { max, rms } = difference(got, want.subarray(logits_row * engine.vocab, (logits_row + 1) * engine.vocab));
      expect(max).toBeLessThanOrEqual(MAX);
      expect(rms).toBeLessThanOrEqual(RMS);
      expect(greedy(engine, ids, expected.length)).toEqual(expected);
    }
    engine.close();
  });

  test.each([["at once", [70]], ["token by token", [1]], ["40 + 1 + 29", [40, 1, 29]], ["7s", [7]]])(
    "every position, %s",
    (_how, pieces) => {
      const engine = openNative(model.path);
      const { ids, logits } = model.cases.all_positions;
      const { max, rms } = difference(feed(engine, ids, { pieces }), readFloats(model.folder, logits));
      expect(max).toBeLessThanOrEqual(MAX);
      expect(rms).toBeLessThanOrEqual(RMS);
      engine.close();
    },
  );
});

describe("a sequence does not feel its neighbours", () => {
  test.each(["q35-r2 hf", "q35-r3 model", "q3moe model"])("%s: batches of unequal lengths", (name) => {
    const model = byName(name);
    for (const batch of model.cases.batches ?? []) {
      const prompts = batch.map((each) => model.cases.cases.find((one) => one.name === each)!.ids);
      const alone = openNative(model.path, { parallel: 1 });
      const together = openNative(model.path, { parallel: prompts.length });
      const sequences = prompts.map(() => together.openSequence());
      together.step(
        prompts.flatMap((ids, p) =>
          ids.map((token, position) => ({
            sequence: sequences[p]!,
            position,
            token,
            logits: position === ids.length - 1,
          }))
        ),
      );
      prompts.forEach((ids, p) => {
        const got = new Float32Array(together.vocab);
        together.logits(p, got);
        expect(Array.from(got)).toEqual(Array.from(feed(alone, ids).subarray((ids.length - 1) * alone.vocab)));
      });
      alone.close();
      together.close();
    }
  });

  test("thread counts 1, 2, 3 and 7 and any cut of the prompt give the same bits", () => {
    const model = byName("q35-r2 model");
    const ids = model.cases.cases.find((one) => one.name === "len200")!.ids;
    const run = (threads: number, pieces: number[]) => {
      const engine = openNative(model.path, { threads });
      const logits = feed(engine, ids, { pieces });
      engine.close();
      return logits;
    };
    const first = run(1, [64]);
    for (const threads of [2, 3, 7]) expect(run(threads, [64])).toEqual(first);
    for (const pieces of [[1], [63, 1, 64], [65, 62, 1]]) expect(run(2, pieces)).toEqual(first);
  });

  test("a fork goes on as its source would, and neither disturbs the other", () => {
    const model = byName("q35-r2 model");
    const ids = model.cases.all_positions.ids;
    const engine = openNative(model.path);
    const whole = feed(engine, ids);
    const source = engine.openSequence();
    feed(engine, ids.slice(0, 33), { sequence: source });
    const fork = engine.forkSequence(source);
    const next = (sequence: number, token: number, position: number) => {
      const out = new Float32Array(engine.vocab);
      engine.step([{ sequence, position, token, logits: true }]);
      engine.logits(0, out);
      return out;
    };
    next(fork, (ids[33]! + 1) % engine.vocab, 33);
    expect(Array.from(next(source, ids[33]!, 33))).toEqual(
      Array.from(whole.subarray(33 * engine.vocab, 34 * engine.vocab)),
    );
    engine.closeSequence(source);
    const again = engine.openSequence();
    expect(feed(engine, ids, { sequence: again })).toEqual(whole);
    engine.close();
  });
});

test("float16 keys and values stay within 2e-2 (README: f16 cache alone)", () => {
  const model = byName("q35-r2 model");
  const engine = openNative(model.path, { kv: "f16" });
  const { ids, logits } = model.cases.all_positions;
  expect(difference(feed(engine, ids), readFloats(model.folder, logits)).max).toBeLessThanOrEqual(2e-2);
  engine.close();
});

describe("refusals leave everything as it was", () => {
  const open = () => openNative(byName("q35-r2 model").path, { context: 8, parallel: 2, stepRows: 16 });

  test("a position past the context is an error, and the sequence still answers", () => {
    const engine = open();
    const sequence = engine.openSequence();
    const rows = (count: number, from: number) =>
      Array.from({ length: count }, (_, i) => ({ sequence, position: from + i, token: 1, logits: i === count - 1 }));
    engine.step(rows(7, 0));
    expect(() => engine.step(rows(2, 7))).toThrow(/context of 8/);
    engine.step(rows(1, 7));
    engine.close();
  });

  test("wrong positions, tokens and sequences", () => {
    const engine = open();
    const sequence = engine.openSequence();
    const row = { sequence, position: 0, token: 1, logits: true };
    expect(() => engine.step([{ ...row, position: 1 }])).toThrow(/position 1 where 0/);
    expect(() => engine.step([{ ...row, token: 288 }])).toThrow(/vocabulary of 288/);
    expect(() => engine.step([{ ...row, sequence: 1 }])).toThrow(/not open/);
    expect(() => engine.step([row, { ...row, position: 0 }])).toThrow(/position 0 where 1/);
    engine.close();
  });

  test("more sequences than the plan has", () => {
    const engine = open();
    engine.openSequence();
    engine.openSequence();
    expect(() => engine.openSequence()).toThrow(/all 2 sequences/);
    engine.close();
  });
});

test("same seed and draw, same token; another seed differs somewhere", () => {
  const model = byName("q35-r2 model");
  const engine = openNative(model.path);
  const ids = model.cases.all_positions.ids;
  const sequence = engine.openSequence();
  engine.step(ids.map((token, position) => ({ sequence, position, token, logits: position === ids.length - 1 })));
  const draws = (seed: number) =>
    Array.from(
      { length: 50 },
      (_, draw) => engine.sample(0, sequence, { ...GREEDY, temperature: 1.5, seed, answerFrom: 0, draw }),
    );
  expect(draws(7)).toEqual(draws(7));
  expect(draws(7)).not.toEqual(draws(8));
  expect(new Set(draws(7)).size).toBeGreaterThan(5);
  engine.close();
});
