/** Slash commands on a session. Breaks when one changes the wrong thing, or lets a bad value or file through. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ChatSession, runCommand } from "../../src/repl/commands.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "chat-commands-"));
afterAll(() => rmSync(FOLDER, { recursive: true }));

let session: ChatSession;

beforeEach(() => {
  session = {
    messages: [{ role: "user", content: "Hi 你好" }, {
      role: "assistant",
      content: "Hello.",
      reasoning_content: "Hm.",
    }],
    system: "Be brief.",
    settings: {
      sampler: {
        temperature: 0,
        topK: 0,
        topP: 1,
        minP: 0,
        presencePenalty: 0,
        frequencyPenalty: 0,
        repeatPenalty: 1,
        seed: 7,
        logitBias: [],
      },
      stop: [],
    },
    lastStats: undefined,
    contextTokens: 4096,
    modelName: "demo",
  };
});

function show(line: string): string {
  const result = runCommand(session, line);
  if (typeof result === "string") throw new Error(`${line} gave ${result}`);
  return result.show;
}

test("system prompt: shown, set with all its lines, and the conversation starts anew", () => {
  expect(show("/system")).toBe("Be brief.");
  show("/system  Be kind.\nAlways.");
  expect([session.system, session.messages]).toEqual(["Be kind.\nAlways.", []]);
});

test("think and nothink", () => {
  show("/think");
  expect(session.settings.think).toBe(true);
  show("/nothink");
  expect(session.settings.think).toBe(false);
});

test("leaving and answering again", () => {
  expect(runCommand(session, "/exit")).toBe("exit");
  expect(runCommand(session, "/regen")).toBe("regenerate");
  show("/clear");
  expect(session.messages).toEqual([]);
  expect(show("/regen")).toBe("There is no message to answer again.");
});

test("help names every command; unknown ones point to it", () => {
  const help = show("/help");
  for (const name of ["system", "think", "nothink", "set", "stats", "clear", "save", "load", "regen", "exit"]) {
    expect(help).toContain(`/${name}`);
  }
  expect(show("/nope")).toBe("There is no command /nope; /help lists them.");
  expect(show("/")).toContain("/help");
});

describe("/set", () => {
  test("changes numbers of the sampler and of the answer", () => {
    show("/set temperature 0.5");
    show("/set --top-k 20");
    show("/set n 9");
    expect(session.settings.sampler).toMatchObject({ temperature: 0.5, topK: 20 });
    expect(session.settings.maxTokens).toBe(9);
    expect(show("/set")).toContain("top-k = 20");
    expect(show("/set")).toContain("reasoning-budget = not set");
  });

  test.each([
    ["temperature -1", "temperature takes a number from 0 to 100."],
    ["temperature", "temperature takes a number from 0 to 100."],
    ["top-p 0", "top-p takes a number from 0.000001 to 1."],
    ["top-k 1.5", "top-k takes a whole number from 0 to 4194304."],
    ["seed NaN", "seed takes a whole number from 0 to 9007199254740991."],
    ["colour red", 'There is no setting "colour"; /help lists them.'],
    ["constructor 1", 'There is no setting "constructor"; /help lists them.'],
  ])("refuses %s", (words, message) => {
    const before = JSON.stringify(session.settings);
    expect(show(`/set ${words}`)).toBe(message);
    expect(JSON.stringify(session.settings)).toBe(before);
  });
});

test("stats: none yet, then the counts of the last answer", () => {
  expect(show("/stats")).toBe("There is no answer yet.");
  session.lastStats = {
    promptTokens: 30,
    cachedTokens: 10,
    answerTokens: 11,
    draftedTokens: 0,
    acceptedTokens: 0,
    prefillMs: 1000,
    decodeMs: 500,
  };
  const stats = show("/stats");
  expect(stats).toContain("30 tokens, 10 of them kept");
  expect(stats).toContain("20 tokens in 1.00 s (20.0 tok/s)");
  expect(stats).toContain("11 tokens, 20.0 tok/s");
  expect(stats).not.toContain("guesses");
  expect(stats).toContain("41 of 4096 tokens");
});

describe("/save and /load", () => {
  test("give the conversation back, readable by its owner alone", () => {
    const file = join(FOLDER, "a chat.json");
    session.settings = { ...session.settings, think: true, reasoningBudget: 3, stop: ["\n\n"] };
    const { system, messages, settings } = structuredClone(session);
    show(`/save ${file}`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    session.system = "";
    session.messages = [];
    show("/set seed 9");
    show("/set max-tokens 5");
    show("/nothink");
    expect(show(`/load ${file}`)).toBe(`Loaded 2 messages from ${file}.`);
    expect({ system: session.system, messages: session.messages }).toEqual({ system, messages });
    expect(session.settings).toEqual(settings);
    expect(readFileSync(file, "utf8")).toContain("你好");
  });

  const saved = (changes: object) =>
    JSON.stringify({
      schema: "surge.chat/1",
      model: "demo",
      system: "",
      settings: { stop: [], numbers: {} },
      messages: [],
      ...changes,
    });

  test("tool calls come back as the template wants them, fields nobody knows do not", () => {
    const file = join(FOLDER, "calls.json");
    const call = { id: "1", type: "function" as const, function: { name: "add", arguments: { a: 1 } } };
    const message = { role: "assistant", content: "", tool_calls: [call] };
    writeFileSync(file, saved({ messages: [{ ...message, more: "x" }] }));
    show(`/load ${file}`);
    expect(session.messages).toEqual([message]);
  });

  test.each<[string, string | undefined, string]>([
    ["missing.json", undefined, "is not there."],
    ["broken.json", "{", "is not a saved chat."],
    ["other.json", "[]", "is not a saved chat."],
    [
      "system_turn.json",
      saved({ messages: [{ role: "system", content: "x" }] }),
      "is not a saved chat.",
    ],
    ["call.json", saved({ messages: [{ role: "assistant", content: "", tool_calls: [{}] }] }), "is not a saved chat."],
    [
      "range.json",
      saved({ settings: { stop: [], numbers: { "top-p": 2 } } }),
      "sets top-p to 2, and it takes a number from 0.000001 to 1.",
    ],
    [
      "unknown.json",
      saved({ settings: { stop: [], numbers: { constructor: 1 } } }),
      'holds an unknown setting "constructor".',
    ],
    [".", undefined, "is not a file."],
  ])("%s is refused in one sentence and changes nothing", (name, content, message) => {
    const file = join(FOLDER, name);
    if (content !== undefined) writeFileSync(file, content);
    const before = JSON.stringify(session);
    expect(show(`/load ${file}`)).toBe(`${file} ${message}`);
    expect(JSON.stringify(session)).toBe(before);
  });

  test("a place that cannot be written is named", () => {
    expect(show("/save /nowhere/chat.json")).toContain("/nowhere/chat.json");
    expect(show("/save")).toBe("/save needs a file name.");
    expect(show("/load")).toBe("/load needs a file name.");
  });
});
