/** Stop strings over every way to cut a text: a leak or a loss at a chunk boundary shows here. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { StopStrings } from "../../src/text/stop_strings.ts";

function run(chunks: string[], stops: string[]): { shown: string; stopped: boolean } {
  const matcher = new StopStrings(stops);
  const shown = chunks.map((chunk) => matcher.push(chunk)).join("");
  return { shown: shown + matcher.flush(), stopped: matcher.stopped };
}

test("any cut gives what the whole text gives", () => {
  const letters = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 12 });
  const stops = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 4 }), {
    maxLength: 3,
  });
  fc.assert(fc.property(fc.array(letters, { maxLength: 6 }), stops, (chunks, list) => {
    const text = chunks.join("");
    const found = list.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
    const { shown, stopped } = run(chunks, list);
    expect(stopped).toBe(found.length > 0);
    /* With several stop strings a longer one may begin before a shorter one that is complete first; then the text shown is no longer than that. */
    expect(text.startsWith(shown)).toBe(true);
    if (found.length === 0) expect(shown).toBe(text);
    else if (list.length === 1) expect(shown).toBe(text.slice(0, found[0]!));
    for (const stop of list) expect(shown.includes(stop)).toBe(false);
  }));
});

test("nothing of a stop string is shown before it is ruled out", () => {
  const matcher = new StopStrings(["END"]);
  expect(["x", "E", "N", "x", "E", "N", "D", "y"].map((each) => matcher.push(each))).toEqual([
    "x",
    "",
    "",
    "ENx",
    "",
    "",
    "",
    "",
  ]);
});
