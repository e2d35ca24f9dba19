/** The slash commands of the chat: what each does to the session. They answer with text to show; failures are sentences, too. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { messageOf, SurgeError } from "../base/errors.ts";
import { formatBytes, perSecond } from "../base/units.ts";
import type { AnswerSettings } from "../engine/conversation.ts";
import type { GenerateStats } from "../engine/protocol.ts";
import { describeRange, getSetting, isPossible, NUMBER_SETTINGS, putSetting, readNumber } from "../engine/settings.ts";
import type { ChatMessage } from "../text/chat_template.ts";

export interface ChatSession {
  messages: ChatMessage[];
  system: string;
  settings: AnswerSettings;
  lastStats: GenerateStats | undefined;
  contextTokens: number;
  modelName: string;
}

export type CommandResult = { show: string } | "exit" | "regenerate";

const SAVE_LIMIT_BYTES = 256 * 1024 * 1024;

const HELP = `/system [TEXT]    show or set the system prompt (starts anew)
/think, /nothink  let the model think before it answers, or not
/set [KEY VALUE]  show or change a setting: ${NUMBER_SETTINGS.map((setting) => setting.name).join(", ")}
/stats            numbers of the last answer
/regen            answer the last message again, with the next seed
/clear            forget the conversation
/save FILE        write the conversation and the settings to a file
/load FILE        go on with a saved conversation and its settings
/exit             leave (also Ctrl-D)
Ctrl-C stops an answer. A line that ends in \\, Alt-Enter or Ctrl-J continues on the next line.`;

const SavedCall = z.object({
  id: z.string().optional(),
  type: z.literal("function").optional(),
  function: z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) }),
});

/** The file of /save. Unknown fields are dropped: what a template does with them is not known. */
const Saved = z.object({
  schema: z.literal("surge.chat/1"),
  model: z.string(),
  system: z.string(),
  settings: z.object({
    think: z.boolean().optional(),
    stop: z.array(z.string().min(1)),
    numbers: z.record(z.string(), z.number()),
  }),
  messages: z.array(z.object({
    role: z.enum(["user", "assistant"]),
    content: z.string(),
    reasoning_content: z.string().optional(),
    tool_calls: z.array(SavedCall).optional(),
  })),
});
type Saved = z.infer<typeof Saved>;

function setValue(session: ChatSession, key: string, text: string): CommandResult {
  const setting = NUMBER_SETTINGS.find(({ name, alias }) => name === key || alias.includes(key));
  if (setting === undefined) return { show: `There is no setting "${key}"; /help lists them.` };
  const value = readNumber(text, setting);
  if (value === undefined) return { show: `${setting.name} takes ${describeRange(setting)}.` };
  putSetting(session.settings, setting, value);
  return { show: `${setting.name} = ${value}` };
}

function showSettings(session: ChatSession): string {
  return NUMBER_SETTINGS.map((setting) => `${setting.name} = ${getSetting(session.settings, setting) ?? "not set"}`)
    .join("\n");
}

export function showStats(stats: GenerateStats): string {
  const rate = perSecond(Math.max(0, stats.answerTokens - 1), stats.decodeMs);
  return `${stats.answerTokens} tokens, ${rate.toFixed(1)} tok/s`;
}

function longStats(session: ChatSession): string {
  const stats = session.lastStats;
  if (stats === undefined) return "There is no answer yet.";
  const computed = stats.promptTokens - stats.cachedTokens;
  return [
    `model    ${session.modelName}`,
    `prompt   ${stats.promptTokens} tokens, ${stats.cachedTokens} of them kept from before`,
    `prefill  ${computed} tokens in ${(stats.prefillMs / 1000).toFixed(2)} s (${
      perSecond(computed, stats.prefillMs).toFixed(1)
    } tok/s)`,
    `decode   ${showStats(stats)}`,
    ...(stats.draftedTokens > 0
      ? [`draft    ${stats.acceptedTokens} of ${stats.draftedTokens} guesses were right`]
      : []),
    `context  ${stats.promptTokens + stats.answerTokens} of ${session.contextTokens} tokens`,
    `seed     ${session.settings.sampler.seed}`,
    `memory   ${formatBytes(process.memoryUsage().rss)} in this process`,
  ].join("\n");
}

/** Runs a file operation; its failure becomes a sentence that names the file. */
function withFile<T>(path: string, use: () => T): T {
  try {
    return use();
  } catch (thrown) {
    if (thrown instanceof SurgeError) throw thrown;
    if (thrown instanceof SyntaxError) throw new SurgeError("data", `${path} is not a saved chat.`);
    const code = (thrown as NodeJS.ErrnoException).code;
    if (code === "ENOENT") throw new SurgeError("missing", `${path} is not there.`);
    throw new SurgeError("missing", `${path} cannot be used: ${code ?? messageOf(thrown)}.`);
  }
}

function toSaved({ modelName, system, settings, messages }: ChatSession): Saved {
  const numbers = NUMBER_SETTINGS.map((setting) => [setting.name, getSetting(settings, setting)] as const);
  return {
    schema: "surge.chat/1",
    model: modelName,
    system,
    settings: {
      ...(settings.think === undefined ? {} : { think: settings.think }),
      stop: settings.stop,
      numbers: Object.fromEntries(numbers.filter((pair): pair is readonly [string, number] => pair[1] !== undefined)),
    },
    messages: messages as Saved["messages"],
  };
}

/** The settings of a saved chat; what it does not hold is not set. */
function settingsOf(saved: Saved, path: string, before: AnswerSettings): AnswerSettings {
  const { think, stop, numbers } = saved.settings;
  const settings: AnswerSettings = { sampler: { ...before.sampler }, stop };
  if (think !== undefined) settings.think = think;
  for (const [name, value] of Object.entries(numbers)) {
    const setting = NUMBER_SETTINGS.find((each) => each.name === name);
    if (setting === undefined) throw new SurgeError("data", `${path} holds an unknown setting "${name.slice(0, 40)}".`);
    if (!isPossible(value, setting)) {
      throw new SurgeError("data", `${path} sets ${name} to ${value}, and it takes ${describeRange(setting)}.`);
    }
    putSetting(settings, setting, value);
  }
  return settings;
}

function save(session: ChatSession, path: string): CommandResult {
  if (path === "") return { show: "/save needs a file name." };
  const text = `${JSON.stringify(toSaved(session), null, 2)}\n`;
  withFile(path, () => writeFileSync(path, text, { mode: 0o600 }));
  return { show: `Saved ${session.messages.length} messages to ${path}.` };
}

function readSaved(path: string): unknown {
  const facts = statSync(path);
  if (!facts.isFile()) throw new SurgeError("data", `${path} is not a file.`);
  if (facts.size > SAVE_LIMIT_BYTES) throw new SurgeError("data", `${path} is too large.`);
  return JSON.parse(readFileSync(path, "utf8"));
}

function load(session: ChatSession, path: string): CommandResult {
  if (path === "") return { show: "/load needs a file name." };
  const parsed = Saved.safeParse(withFile(path, () => readSaved(path)));
  if (!parsed.success) throw new SurgeError("data", `${path} is not a saved chat.`);
  session.settings = settingsOf(parsed.data, path, session.settings);
  session.system = parsed.data.system;
  session.messages = parsed.data.messages as ChatMessage[];
  return { show: `Loaded ${session.messages.length} messages from ${path}.` };
}

function execute(session: ChatSession, name: string, rest: string): CommandResult {
  switch (name) {
    case "help":
      return { show: HELP };
    case "system":
      if (rest === "") return { show: session.system === "" ? "There is no system prompt." : session.system };
      session.system = rest;
      session.messages = [];
      return { show: "System prompt set; the conversation starts anew." };
    case "think":
    case "nothink":
      session.settings.think = name === "think";
      return { show: name === "think" ? "The model thinks before it answers." : "The model answers at once." };
    case "set": {
      const [key = "", value = ""] = rest.split(/\s+/);
      return key === "" ? { show: showSettings(session) } : setValue(session, key.replace(/^--/, ""), value);
    }
    case "stats":
      return { show: longStats(session) };
    case "clear":
      session.messages = [];
      return { show: "The conversation is forgotten." };
    case "save":
      return save(session, rest);
    case "load":
      return load(session, rest);
    case "regen":
      return session.messages.some((message) => message.role === "user")
        ? "regenerate"
        : { show: "There is no message to answer again." };
    case "exit":
    case "quit":
      return "exit";
    default:
      return { show: `There is no command /${name}; /help lists them.` };
  }
}

/** Runs "/name rest". Never throws: what goes wrong is shown. */
export function runCommand(session: ChatSession, line: string): CommandResult {
  const [, name = "", rest = ""] = /^\/(\S*)\s*([^]*)$/.exec(line.trim()) ?? [];
  try {
    return execute(session, name, rest.trim());
  } catch (thrown) {
    return { show: messageOf(thrown) };
  }
}
