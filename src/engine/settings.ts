/**
 * The numbers a person may set for answers: name, range and help in one table. Flags, the chat's /set and its saved files are made from
 * it, so that they cannot disagree. It knows nothing of how a value arrives.
 */
import type { AnswerSettings } from "./conversation.ts";
import type { SamplerOptions } from "./protocol.ts";

export interface NumberSetting {
  /** As a flag is spelled, without its dashes. */
  name: string;
  /** llama.cpp's names. */
  alias: readonly string[];
  field: Exclude<keyof SamplerOptions, "logitBias"> | "maxTokens" | "reasoningBudget";
  whole: boolean;
  min: number;
  max: number;
  help: string;
}

/** No context is longer. */
const TOKENS_MAX = 1 << 24;
/** No vocabulary is larger. */
const VOCAB_MAX = 1 << 22;

function row(name: string, field: NumberSetting["field"], more: Omit<NumberSetting, "name" | "field">): NumberSetting {
  return { name, field, ...more };
}

const whole = (min: number, max: number, help: string, ...alias: string[]) => ({ whole: true, min, max, help, alias });
const real = (min: number, max: number, help: string, ...alias: string[]) => ({ whole: false, min, max, help, alias });

export const NUMBER_SETTINGS: readonly NumberSetting[] = [
  row("temperature", "temperature", real(0, 100, "0 picks the likeliest token", "temp")),
  row("top-k", "topK", whole(0, VOCAB_MAX, "draw among the K likeliest; 0 = all")),
  row("top-p", "topP", real(1e-6, 1, "draw among the likeliest that hold this probability")),
  row("min-p", "minP", real(0, 1, "drop tokens below this share of the likeliest")),
  row("presence-penalty", "presencePenalty", real(-100, 100, "subtracted once for tokens already in the answer")),
  row("frequency-penalty", "frequencyPenalty", real(-100, 100, "subtracted for each time a token is in the answer")),
  row("repeat-penalty", "repeatPenalty", real(0.01, 100, "divides the score of tokens already seen; 1 = off")),
  row("seed", "seed", whole(0, Number.MAX_SAFE_INTEGER, "same seed, same text", "s")),
  row("max-tokens", "maxTokens", whole(1, TOKENS_MAX, "most tokens of an answer", "n", "predict", "n-predict")),
  row("reasoning-budget", "reasoningBudget", whole(0, TOKENS_MAX, "tokens after which thinking is closed")),
];

type Range = Pick<NumberSetting, "whole" | "min" | "max">;

export function isPossible(value: number, { whole, min, max }: Range): boolean {
  return Number.isFinite(value) && value >= min && value <= max && (!whole || Number.isInteger(value));
}

/** A number as it was typed; undefined where it is none or out of its range. */
export function readNumber(text: string, range: Range): number | undefined {
  const value = text.trim() === "" ? NaN : Number(text);
  return isPossible(value, range) ? value : undefined;
}

/** "a whole number from 1 to 512", for messages. */
export function describeRange({ whole, min, max }: Range): string {
  return `a ${whole ? "whole " : ""}number from ${min} to ${max}`;
}

/** undefined: not set, the model's or the context's own limit counts. */
export function getSetting(settings: AnswerSettings, { field }: NumberSetting): number | undefined {
  return field === "maxTokens" || field === "reasoningBudget" ? settings[field] : settings.sampler[field];
}

export function putSetting(settings: AnswerSettings, { field }: NumberSetting, value: number): void {
  if (field === "maxTokens" || field === "reasoningBudget") settings[field] = value;
  else settings.sampler[field] = value;
}
