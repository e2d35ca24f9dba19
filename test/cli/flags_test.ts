/** Flags from words to values. Breaks when an alias, a range or a hint is lost, or a mistake passes for a value. */
import { describe, expect, test } from "bun:test";
import {
  ANSWER_FLAGS,
  DRAFT_FLAGS,
  flagHelp,
  MODEL_FLAG,
  nearest,
  parseFlags,
  PLAN_FLAGS,
} from "../../src/cli/flags.ts";

const FLAGS = [MODEL_FLAG, ...ANSWER_FLAGS, ...PLAN_FLAGS, ...DRAFT_FLAGS];
const parse = (...words: string[]) => parseFlags(words, FLAGS);

test("llama.cpp's short names", () => {
  const args = parse("-m", "x.gguf", "-n", "5", "-c=64", "-t", "2", "--temp", "0.5", "-s", "3", "hello", "there");
  expect(args.text("model")).toBe("x.gguf");
  expect(["max-tokens", "ctx", "threads", "temperature", "seed"].map(args.number)).toEqual([5, 64, 2, 0.5, 3]);
  expect(args.positional).toEqual(["hello", "there"]);
  expect(parse("--n-predict", "6").number("max-tokens")).toBe(6);
  expect(parse("--ctx-size", "7").number("ctx")).toBe(7);
});

test("what is not given is undefined, not zero or false", () => {
  const args = parse();
  expect([args.number("temperature"), args.toggle("think"), args.text("system"), args.texts("stop")]).toEqual([
    undefined,
    undefined,
    undefined,
    [],
  ]);
});

test("thinking has three states", () => {
  expect(parse("--think").toggle("think")).toBe(true);
  expect(parse("--no-think").toggle("think")).toBe(false);
  expect(parse("--no-think", "hello").positional).toEqual(["hello"]);
});

test("--stop may be repeated; another flag's last value counts", () => {
  expect(parse("--stop", "a", "--stop=b", "--stop=-c").texts("stop")).toEqual(["a", "b", "-c"]);
  expect(parse("--seed", "1", "-s", "2").number("seed")).toBe(2);
});

test("negative numbers are values; what follows -- is text", () => {
  expect(parse("--presence-penalty", "-1.5").number("presence-penalty")).toBe(-1.5);
  expect(parse("--presence-penalty", "-.5").number("presence-penalty")).toBe(-0.5);
  expect(parse("demo", "--", "--temp").positional).toEqual(["demo", "--temp"]);
});

test("an empty text may be meant", () => {
  expect(parse("--system", "").text("system")).toBe("");
  expect(parse("--system=").text("system")).toBe("");
});

describe("mistakes", () => {
  test.each([
    [["--temprature", "1"], "Unknown flag --temprature. Did you mean --temperature?"],
    [["--no-json"], "Unknown flag --no-json."],
    [["--zzzzzzzzz=1"], "Unknown flag --zzzzzzzzz."],
    [["--top-p", "0"], '--top-p takes a number from 0.000001 to 1, not "0".'],
    [["--min-p=1.01"], '--min-p takes a number from 0 to 1, not "1.01".'],
    [["-n", "0"], '--max-tokens takes a whole number from 1 to 16777216, not "0".'],
    [["-t", "1.5"], '--threads takes a whole number from 1 to 512, not "1.5".'],
    [["--temp", "hot"], '--temperature takes a number from 0 to 100, not "hot".'],
    [["--temp", "Infinity"], '--temperature takes a number from 0 to 100, not "Infinity".'],
    [["--top-k", "99999999999"], '--top-k takes a whole number from 0 to 4194304, not "99999999999".'],
    [["--kv", "f8"], '--kv takes f16 or f32, not "f8".'],
    [["-n5"], "Unknown flag -n5. Did you mean -n?"],
    [["--_", "x"], "Unknown flag --_."],
    [["-c", " "], '--ctx takes a whole number from 1 to 16777216, not " ".'],
  ])("%j", (words, message) => expect(() => parse(...words)).toThrow(message));

  test.each([
    [["-n"], "--max-tokens needs a value"],
    [["--temp="], "--temperature needs a value"],
    [["--stop"], "--stop needs a value"],
    [["--stop", ""], "--stop needs a value"],
    [["--system"], "--system needs a value"],
    [["--system", "--think"], "--system needs a value"],
    [["-m", "-n", "3"], "--model needs a value"],
  ])("no value: %j", (words, message) => expect(() => parse(...words)).toThrow(message));

  test("are usage errors", () => {
    expect(() => parse("--what")).toThrow(expect.objectContaining({ exitCode: 64 }));
  });
});

test("nearest finds slips of the finger and nothing far away", () => {
  expect(nearest("tokenise", ["tokenize", "run", "info"])).toBe("tokenize");
  expect(nearest("elephant", ["tokenize", "run", "info"])).toBeUndefined();
});

test("help has one line for each flag, with all its names", () => {
  const help = flagHelp(FLAGS);
  expect(help.split("\n").length).toBe(FLAGS.length);
  expect(help).toContain("--max-tokens, -n, --predict, --n-predict N");
  expect(help).toContain("--think, --no-think");
  expect(help).toMatch(/--threads, -t N .*\(1 to 512\)/);
  expect(help).toContain("--kv f16|f32");
  expect(help).toContain("--draft none|mtp|lookup");
});
