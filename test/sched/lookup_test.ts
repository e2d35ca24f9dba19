import { expect, test } from "bun:test";
import { PromptLookup } from "../../src/sched/lookup.ts";

function lookupOf(tokens: number[]): PromptLookup {
  const lookup = new PromptLookup();
  for (const token of tokens) lookup.add(token);
  return lookup;
}

/** By definition: every earlier end is tried. */
function slowGuess(tokens: number[], count: number): number[] {
  let [best, length] = [-1, 2];
  for (let end = tokens.length - 2; end >= 0; end--) {
    let match = 0;
    while (match < 8 && match <= end && tokens[end - match] === tokens[tokens.length - 1 - match]) match++;
    if (match > length) [best, length] = [end, match];
  }
  if (best < 0) return [];
  const all = [...tokens];
  for (let i = 0; i < count; i++) all.push(all[best + 1 + i]!);
  return all.slice(tokens.length);
}

test("text goes on as it did after the longest earlier match", () => {
  expect(lookupOf([1, 2, 3, 4, 5, 1, 2, 3]).guess(2)).toEqual([4, 5]);
  /* 9 1 2 3 is longer than 1 2 3, which is newer. */
  expect(lookupOf([9, 1, 2, 3, 7, 5, 1, 2, 3, 8, 9, 1, 2, 3]).guess(1)).toEqual([7]);
  expect(lookupOf([1, 2, 3, 7, 5, 1, 2, 3, 8, 6, 1, 2, 3]).guess(1)).toEqual([8]);
});

test("two tokens in common are chance; the start of a text guesses nothing", () => {
  for (const tokens of [[], [1], [1, 1], [1, 2, 3], [5, 2, 3, 9, 4, 2, 3]]) {
    expect(lookupOf(tokens).guess(3)).toEqual([]);
  }
});

test("a guess may run past the end into itself", () => {
  expect(lookupOf([4, 4, 4, 4]).guess(3)).toEqual([4, 4, 4]);
  expect(lookupOf([1, 2, 3, 1, 2, 3, 1, 2]).guess(5)).toEqual([3, 1, 2, 3, 1]);
});

test("it finds what a search of everything finds while no pair occurs more often than is looked at", () => {
  let state = 1;
  for (let round = 0; round < 300; round++) {
    const tokens = Array.from({ length: 40 }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return (state >>> 24) % 3 + (round % 2) * 4_000_000;
    });
    for (let n = 0; n <= tokens.length; n++) {
      const start = tokens.slice(0, n);
      const pair = start.slice(-2).join();
      const pairs = start.filter((_, i) => i > 0 && `${start[i - 1]},${start[i]}` === pair).length;
      if (pairs <= 16) expect(lookupOf(start).guess(4)).toEqual(slowGuess(start, 4));
    }
  }
});
