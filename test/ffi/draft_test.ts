/**
 * Rows that are taken back leave no trace, and the MTP layer guesses as transformers' does. A state that is not restored exactly, a key
 * that a guess leaves behind or a hidden state of the wrong token shows here as another bit.
 */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { NativeEngine } from "../../ffi/engine.ts";
import type { Plan } from "../../src/plan/schema.ts";
import { difference, goldenModels, readFloats } from "../support/golden.ts";
import { GREEDY, openNative } from "../support/native.ts";

const MODELS = goldenModels();
const DEMO = join(import.meta.dir, "../../models/demo");

function golden(name: string) {
  return MODELS.find((model) => model.name === name)!;
}

function rows(sequence: number, tokens: number[], from: number, drafts = 0) {
  return tokens.map((token, i) => (
    { sequence, position: from + i, token, logits: true, draft: i >= tokens.length - drafts }
  ));
}

/** Feeds in pieces whose logits the plan has room for. */
function feedAll(engine: NativeEngine, sequence: number, tokens: number[], from = 0): void {
  for (let at = 0; at < tokens.length; at += 64) {
    engine.step(rows(sequence, tokens.slice(at, at + 64), from + at));
  }
}

function logitsOf(engine: NativeEngine, row: number): number[] {
  const out = new Float32Array(engine.vocab);
  engine.logits(row, out);
  return Array.from(out);
}

function prompt(vocab: number, length: number): number[] {
  return Array.from({ length }, (_, i) => (i * 31 + 7) % Math.min(vocab, 280));
}

describe.each(MODELS.filter(({ cases }) => cases.mtp_drafts !== undefined))("$name", (model) => {
  test("the guess after every token of a prompt is the reference's", () => {
    const { ids } = model.cases.all_positions;
    const engine = openNative(model.path, { draft: "mtp" });
    const want = readFloats(model.folder, model.cases.mtp_drafts!.logits);
    const sequence = engine.openSequence();
    const got = new Float32Array(want.length);
    for (let t = 0; t + 1 < ids.length; t++) {
      feedAll(engine, sequence, [ids[t]!], t);
      engine.draft(rows(sequence, [ids[t + 1]!], t + 1), 1);
      engine.logits(0, got.subarray(t * engine.vocab, (t + 1) * engine.vocab));
    }
    const { max, rms } = difference(got, want);
    expect(max).toBeLessThanOrEqual(2e-3);
    expect(rms).toBeLessThanOrEqual(1e-4);
    engine.close();
  });
});

const PLANS: Array<[string, string, Partial<Plan>]> = [
  ["q35-bf16 model", golden("q35-bf16 model").path, { draft: "mtp" }],
  ["q35-bf16 hf", golden("q35-bf16 hf").path, { draft: "mtp", kv: "f16" }],
  ["q35-r2 model", golden("q35-r2 model").path, { draft: "lookup" }],
  ["q35-r3 model", golden("q35-r3 model").path, { draft: "lookup" }],
  ["q3moe model", golden("q3moe model").path, { draft: "lookup" }],
  ["q35-k256", golden("q35-k256 q4_k-q6_k").path, { draft: "lookup", precision: "fast" }],
  ["demo, mtp, fast", join(DEMO, "demo-q4_k.gguf"), { draft: "mtp", precision: "fast", kv: "f16" }],
  ["demo, mtp, exact", join(DEMO, "demo-q8_0.gguf"), { draft: "mtp" }],
];

describe.each(PLANS)("%s", (_name, path, changes) => {
  const draftTokens = 4;

  test.each([1, 3])("after a rewind every bit is as if the draft had not been, %d threads", (threads) => {
    const engine = openNative(path, { ...changes, draftTokens, threads });
    for (const length of [1, 2, 61, 63, 64, 66]) {
      const tokens = prompt(engine.vocab, length + 12);
      for (let accepted = 0; accepted <= draftTokens; accepted++) {
        const [plain, drafted] = [engine.openSequence(), engine.openSequence()];
        feedAll(engine, plain, tokens.slice(0, length + 1 + accepted));
        feedAll(engine, drafted, tokens.slice(0, length));
        const span = tokens.slice(length, length + 1 + draftTokens).map((token, i) =>
          i <= accepted ? token : (token + 1) % 280
        );
        engine.step(rows(drafted, span, length, draftTokens));
        if (changes.draft === "mtp" && accepted % 2 === 1) {
          /* guessing from what is taken back leaves no trace either */
          engine.draft(rows(drafted, [1], length + 1 + draftTokens), 2);
        }
        engine.rewindSequence(drafted, length + 1 + accepted);
        for (let at = length + 1 + accepted; at < tokens.length; at++) {
          if (changes.draft === "mtp" && at % 3 === 0) {
            /* what is fed without a guess before it is made up for */
            const guesses = engine.draft([...rows(plain, [tokens[at]!], at), ...rows(drafted, [tokens[at]!], at)], 3);
            expect(guesses[1]).toEqual(guesses[0]!);
            expect(logitsOf(engine, 1)).toEqual(logitsOf(engine, 0));
          }
          engine.step([...rows(plain, [tokens[at]!], at), ...rows(drafted, [tokens[at]!], at)]);
          expect(logitsOf(engine, 1)).toEqual(logitsOf(engine, 0));
        }
        engine.closeSequence(plain);
        engine.closeSequence(drafted);
      }
    }
    engine.close();
  });

  test("forks made before and after a rewind go on as if they were alone", () => {
    const engine = openNative(path, { ...changes, draftTokens, threads: 2, parallel: 5 });
    const tokens = prompt(engine.vocab, 80);
    const [plain, source] = [engine.openSequence(), engine.openSequence()];
    feedAll(engine, plain, tokens.slice(0, 64));
    feedAll(engine, source, tokens.slice(0, 62));
    engine.step(rows(source, [...tokens.slice(62, 64), 1, 2, 3], 62, draftTokens));
    const ahead = engine.forkSequence(source);
    engine.rewindSequence(source, 64);
    const behind = engine.forkSequence(source);
    const other = engine.forkSequence(source);
    engine.step([...rows(ahead, [5], 67), ...rows(other, [9, 9], 64)]);
    for (let at = 64; at < 80; at++) {
      const each = [plain, source, behind].flatMap((sequence) => rows(sequence, [tokens[at]!], at));
      if (changes.draft === "mtp") engine.draft(each, 2);
      engine.step(each);
      expect(logitsOf(engine, 1)).toEqual(logitsOf(engine, 0));
      expect(logitsOf(engine, 2)).toEqual(logitsOf(engine, 0));
    }
    engine.closeSequence(plain);
    const alone = engine.openSequence();
    feedAll(engine, alone, [...tokens.slice(0, 64), 9, 9]);
    const last = [alone, other].flatMap((sequence) => rows(sequence, [3], 66));
    const guessed = () => {
      engine.draft(rows(source, [3], 80), 1);
      return logitsOf(engine, 0);
    };
    const before = changes.draft === "mtp" && guessed();
    if (changes.draft === "mtp") engine.draft(last, 1);
    else engine.step(last);
    expect(logitsOf(engine, 1)).toEqual(logitsOf(engine, 0));
    if (before) expect(guessed()).toEqual(before);
    engine.close();
  });
});

test("rows checked together have the bits of rows fed one by one, and each is sampled with its own past", () => {
  const engine = openNative(join(DEMO, "demo-q4_k.gguf"), { precision: "fast", draft: "mtp", draftTokens: 3 });
  const tokens = prompt(engine.vocab, 37);
  const [plain, drafted] = [engine.openSequence(), engine.openSequence()];
  const penalties = { ...GREEDY, frequencyPenalty: 20, answerFrom: 0 };
  feedAll(engine, drafted, tokens.slice(0, 36));
  feedAll(engine, plain, tokens);
  /* The likeliest token stands in the rows behind it: were these its past, it would be penalised. */
  const likeliest = engine.sample(36, plain, { ...penalties, draw: 0 });
  engine.step(rows(drafted, [tokens[36]!, likeliest, likeliest, 7], 36, 3));
  const together = [0, 1, 2, 3].map((row) => ({
    logits: logitsOf(engine, row),
    token: engine.sample(row, drafted, { ...penalties, draw: row }),
  }));
  expect(together[0]!.token).toBe(likeliest);
  [likeliest, likeliest, 7].forEach((token, i) => {
    engine.step(rows(plain, [token], 37 + i));
    expect(logitsOf(engine, 0)).toEqual(together[i + 1]!.logits);
    expect(engine.sample(0, plain, { ...penalties, draw: i })).toBe(together[i + 1]!.token);
  });
  engine.close();
});

/* The layer's keys and values are made late and many at a time; when is nobody's business. */
test.each([["q35-bf16 model", 4], ["q35-bf16 hf", 200]] as const)(
  "%s: a guess does not depend on how the tokens before it were fed, %d tokens at a time at most",
  (name, stepRows) => {
    const open = (changes: Partial<Plan> = {}) =>
      openNative(golden(name).path, { draft: "mtp", draftTokens: 2, context: 320, parallel: 3, ...changes });
    const tokens = prompt(280, 280);
    const always = open();
    const other = open({ stepRows });
    const sequence = always.openSequence();
    const lengths = [1, 2, 40, 63, 64, 65, 66, 67, 128, 129, 130, 131, 200, 270];
    const want = new Map<number, number[]>();
    for (let at = 0; at < 270; at++) {
      feedAll(always, sequence, [tokens[at]!], at);
      always.draft(rows(sequence, [tokens[at + 1]!], at + 1), 1);
      if (lengths.includes(at + 1)) want.set(at + 1, logitsOf(always, 0));
    }
    for (const length of lengths) {
      for (const piece of [1, 3, 64, 65, 150]) {
        const held = other.openSequence();
        for (let at = 0; at < length; at += Math.min(piece, stepRows)) {
          const some = tokens.slice(at, Math.min(length, at + Math.min(piece, stepRows)));
          other.step(rows(held, some, at).map((row) => ({ ...row, logits: false })));
        }
        const fork = other.forkSequence(held);
        const next = tokens[length]!;
        other.draft([...rows(held, [next], length), ...rows(fork, [next], length)], 1);
        expect(logitsOf(other, 0)).toEqual(want.get(length)!);
        expect(logitsOf(other, 1)).toEqual(want.get(length)!);
        other.closeSequence(held);
        other.closeSequence(fork);
      }
    }
    always.close();
    other.close();
  },
);

describe("refusals leave everything as it was", () => {
  const model = golden("q35-bf16 model");

  test("going back further than the draft, twice, or into a step", () => {
    const engine = openNative(model.path, { draft: "mtp", draftTokens: 2 });
    const sequence = engine.openSequence();
    expect(() => engine.rewindSequence(sequence, 1)).toThrow(/holds 0 tokens/);
    engine.step(rows(sequence, [1, 2, 3, 4], 0));
    expect(() => engine.rewindSequence(sequence, 3)).toThrow(/can go back to 4, not to 3/);
    engine.step(rows(sequence, [5, 6, 7], 4, 2));
    expect(() => engine.rewindSequence(sequence, 4)).toThrow(/holds 7 tokens and can go back to 5, not to 4/);
    engine.beginStep(rows(sequence, [8], 7));
    expect(() => engine.rewindSequence(sequence, 6)).toThrow(/under way/);
    while (!engine.runStep(Infinity));
    expect(() => engine.rewindSequence(sequence, 6)).toThrow(/can go back to 8/);
    engine.step(rows(sequence, [9, 10], 8, 1));
    engine.rewindSequence(sequence, 9);
    engine.rewindSequence(sequence, 9);
    expect(() => engine.rewindSequence(sequence, 8)).toThrow(/can go back to 9/);
    engine.close();
  });

  test("drafts that begin a span, stand before other rows, or are more than the plan keeps", () => {
    const engine = openNative(model.path, { draft: "lookup", draftTokens: 2 });
    const sequence = engine.openSequence();
    const [first, second] = rows(sequence, [1, 2], 0) as [ReturnType<typeof rows>[0], ReturnType<typeof rows>[0]];
    expect(() => engine.step([{ ...first, draft: true }])).toThrow(/come last, after one that stays/);
    expect(() => engine.step([{ ...first, draft: true }, second])).toThrow(/come last/);
    expect(() => engine.step(rows(sequence, [1, 2, 3, 4], 0, 3))).toThrow(/more than the 2/);
    engine.step(rows(sequence, [1, 2, 3], 0, 2));
    engine.close();
  });

  test("guessing without a prediction layer, before a first token, past the context, or for a wrong position", () => {
    const without = openNative(model.path, { draft: "lookup" });
    const plain = without.openSequence();
    feedAll(without, plain, [1]);
    expect(() => without.draft(rows(plain, [1], 1), 1)).toThrow(/no prediction layer/);
    without.close();
    expect(() => openNative(golden("q35-r2 model").path, { draft: "mtp" })).toThrow(
      /no prediction layer to draft with/,
    );
    const engine = openNative(model.path, { draft: "mtp", context: 8 });
    const sequence = engine.openSequence();
    expect(() => engine.draft(rows(sequence, [1], 0), 1)).toThrow(/after 0 tokens/);
    feedAll(engine, sequence, [1, 2, 3, 4, 5, 6]);
    expect(() => engine.draft(rows(sequence, [1], 6), 3)).toThrow(/past the context of 8/);
    expect(() => engine.draft(rows(sequence, [1], 5), 1)).toThrow(/position 5 where 6/);
    expect(() => engine.draft(rows(sequence, [1, 2], 6), 1)).toThrow(/in 2 rows of 1 sequences/);
    expect(engine.draft(rows(sequence, [1], 6), 2)[0]).toHaveLength(2);
    engine.close();
  });
});
