/** Text on its way to a terminal. Breaks when a model or a file could move the cursor, set a title or answer a query. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { printable } from "../../src/base/printable.ts";

test("control characters become visible, line ends and tabs stay", () => {
  expect(printable("a\x1b[2J\tb\nc\x7f\x9b")).toBe("a␛[2J\tb\nc␡␡");
  expect(printable("a\r\nb\rc\x00")).toBe("a\nb␍c␀");
});

test("nothing that drives a terminal passes, and the rest is untouched", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    const shown = printable(text);
    // deno-lint-ignore no-control-regex
    expect(shown).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
    // deno-lint-ignore no-control-regex
    const rest = (each: string) => each.replace(/[\x00-\x1f\x7f-\x9f\u2400-\u2421]/g, "");
    expect(rest(shown)).toBe(rest(text));
  }));
});
