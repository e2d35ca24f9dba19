/** The slash commands of the chat: what each does to the session. They answer with text to show; failures are sentences, too. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { messageOf, SurgeError } from "../base/errors.ts";
import { formatBytes, perSecond } from "../base/units.ts";
import type { AnswerSettings } from "../engine/conversation.ts";
import type { GenerateStats, SamplerOptions } from "../engine/protocol.ts";
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

/** What /set changes: the sampler's numbers, in the flags' spelling. */
const SETTABLE: Record<
  string,
  { field: keyof Omit<SamplerOptions, "logitBias"> | "maxTokens" | "reasoningBudget"; min: number; max: number }
> = {
  temperature: { field: "temperature", min: 0, max: 100 },
  "top-k": { field: "topK", min: 0, max: 1 << 22 },
  "top-p": { field: "topP", min: 1e-6, max: 1 },
  "min-p": { field: "minP", min: 0, max: 1 },
  "presence-penalty": { field: "presencePenalty", min: -100, max: 100 },
  "frequency-penalty": { field: "frequencyPenalty", min: -100, max: 100 },
  "repeat-penalty": { field: "repeatPenalty", min: 0.01, max: 100 },
  seed: { field: "seed", min: 0, max: Number.MAX_SAFE_INTEGER },
  "max-tokens": { field: "maxTokens", min: 1, max: 1 << 24 },
  "reasoning-budget": { field: "reasoningBudget", min: 0, max: 1 << 24 },
};
const WHOLE = ["topK", "seed", "maxTokens", "reasoningBudget"];

const HELP = `/system [TEXT]    show or set the system prompt (starts anew)
/think, /nothink  let the model think before it answers, or not
/set [KEY VALUE]  show or change a setting: ${Object.keys(SETTABLE).join(", ")}
/stats            numbers of the last answer
/regen            answer the last message again, with the next seed
/clear            forget the conversation
/save FILE, /load FILE
/exit             leave (also Ctrl-D)
Ctrl-C stops an answer. A line that ends in \\, Alt-Enter or Ctrl-J continues on the next line.`;

const Saved = z.object({
  schema: z.literal("surge.chat/1"),
  system: z.string(),
  messages: z.array(
    z.looseObject({
      role: z.enum(["user", "assistant"]),
      content: z.string(),
      reasoning_content: z.string().optional(),
    }),
  ),
});

function setValue(session: ChatSession, key: string, text: string): CommandResult {
  const entry = Object.hasOwn(SETTABLE, key) ? SETTABLE[key] : undefined;
  if (entry === undefined) return { show: `There is no setting "${key}"; /help lists them.` };
  const value = Number(text);
  if (
    text === "" || !Number.isFinite(value) || value < entry.min || value > entry.max ||
    (WHOLE.includes(entry.field) && !Number.isInteger(value))
  ) {
    return {
      show: `${key} takes a ${WHOLE.includes(entry.field) ? "whole " : ""}number from ${entry.min} to ${entry.max}.`,
    };
  }
  if (entry.field === "maxTokens" || entry.field === "reasoningBudget") session.settings[entry.field] = value;
  else session.settings.sampler[entry.field] = value;
  return { show: `${key} = ${value}` };
}

function showSettings(session: ChatSession): string {
  return Object.entries(SETTABLE).map(([key, { field }]) => {
    const value = field === "maxTokens" || field === "reasoningBudget"
      ? session.settings[field]
      : session.settings.sampler[field];
    return `${key} = ${value ?? "not set"}`;
  }).join("\n");
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

function save(session: ChatSession, path: string): CommandResult {
  if (path === "") return { show: "/save needs a file name." };
  const document = { schema: "surge.chat/1", system: session.system, messages: session.messages };
  withFile(path, () => writeFileSync(path, `${JSON.stringify(document, null, 2)}\n`, { mode: 0o600 }));
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
