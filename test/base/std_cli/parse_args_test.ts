/** parseArgs against node:util.parseArgs where both have an opinion, and its own rules by example. */
import { parseArgs } from "@std/cli/parse-args";
import { expect, test } from "bun:test";
import fc from "fast-check";
import { parseArgs as nodeParseArgs } from "node:util";

test("agrees with node:util.parseArgs on strings, booleans and positionals", () => {
  const word = fc.constantFrom("--name=x", "--flag", "--name=", "plain", "-", "other words", "--name=a=b");
  fc.assert(fc.property(fc.array(word, { maxLength: 8 }), (words) => {
    const node = nodeParseArgs({
      args: words,
      options: { name: { type: "string" }, flag: { type: "boolean" } },
      allowPositionals: true,
    });
    const ours = parseArgs(words, { string: ["name"], boolean: ["flag"] });
    expect(ours._).toEqual(node.positionals);
    expect(ours["name"]).toBe(node.values.name);
    expect(ours["flag"]).toBe(node.values.flag ?? false);
  }));
});

test("aliases, collected values, negation, defaults and what follows --", () => {
  const options = {
    string: ["n"],
    collect: ["stop"],
    boolean: ["think"],
    negatable: ["think"],
    alias: { n: ["count"] },
    default: { n: "1" },
  };
  expect(parseArgs(["--count", "3"], options)).toMatchObject({ n: "3", count: "3" });
  expect(parseArgs(["--stop", "a", "--stop=b"], options)["stop"]).toEqual(["a", "b"]);
  expect(parseArgs(["--no-think"], options)["think"]).toBe(false);
  expect(parseArgs([], options)["n"]).toBe("1");
  expect(parseArgs(["a", "--", "--count", "b"], options)._).toEqual(["a", "--count", "b"]);
});

test("negative numbers are values and positionals, not flags", () => {
  expect(parseArgs(["--n", "-1.5", "-2"], { string: ["n"] })).toEqual({ _: ["-2"], n: "-1.5" });
});

test("a flag is no value of the flag before it", () => {
  expect(parseArgs(["--n", "--flag", "-"], { string: ["n"], boolean: ["flag"] })).toEqual({
    _: ["-"],
    n: "",
    flag: true,
  });
  expect(parseArgs(["--n=--flag"], { string: ["n"] })["n"]).toBe("--flag");
});

test("unknown flags go to the caller", () => {
  const seen: string[] = [];
  parseArgs(["--what=1", "-x"], { unknown: (argument) => void seen.push(argument) });
  expect(seen).toEqual(["--what=1", "-x"]);
});

test("positional arguments, too, and what is refused is left out", () => {
  const seen: string[] = [];
  const unknown = (argument: string, key?: string) => {
    seen.push(key === undefined ? argument : `${key}!`);
    return argument !== "b" && key !== "what";
  };
  expect(parseArgs(["a", "--what", "b", "--n", "c"], { string: ["n", "_"], unknown })).toEqual({ _: ["a"], n: "c" });
  expect(seen).toEqual(["a", "what!", "b"]);
});

test("stopEarly leaves everything behind the first positional alone", () => {
  const options = { boolean: ["flag"], stopEarly: true };
  expect(parseArgs(["--flag", "run", "--flag", "--other"], options)).toEqual({
    _: ["run", "--flag", "--other"],
    flag: true,
  });
});

test('what follows "--" apart from the positional arguments', () => {
  expect(parseArgs(["a", "--", "--b", "c"], { "--": true })).toEqual({ _: ["a"], "--": ["--b", "c"] });
  expect(parseArgs(["a"], { "--": true })).toEqual({ _: ["a"], "--": [] });
});
