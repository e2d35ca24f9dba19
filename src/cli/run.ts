/** `surge run MODEL "prompt"`: one question, one answer. The answer alone goes to standard output. */
import { EXIT, SurgeError } from "../base/errors.ts";
import { type AnswerSettings, Conversation } from "../engine/conversation.ts";
import type { ChatMessage } from "../text/chat_template.ts";
import { type Command, modelAndRest } from "./command.ts";
import { ANSWER_FLAGS, DRAFT_FLAGS, MODEL_FLAG, PLAN_FLAGS } from "./flags.ts";
import { answerSettings, openForChat, type OpenModel } from "./session.ts";
import { readStandardInput, showOut, writeOut } from "./stdio.ts";

/** The prompt from the arguments, from standard input, or both: what was piped in comes first, as context. */
async function promptOf(words: string[]): Promise<string> {
  const piped = process.stdin.isTTY ? "" : (await readStandardInput()).trimEnd();
  const prompt = [piped, words.join(" ")].filter((part) => part.trim() !== "").join("\n\n");
  if (prompt === "") {
    throw new SurgeError("usage", 'surge run needs a prompt: surge run MODEL "prompt", or text on standard input.');
  }
  return prompt;
}

/** Prints the answer; the exit code tells whether it was interrupted. */
export async function answerOnce(model: OpenModel, messages: ChatMessage[], settings: AnswerSettings): Promise<number> {
  const conversation = new Conversation(model.client, { text: model.text, plan: model.plan, name: "run" });
  const abort = new AbortController();
  process.once("SIGINT", () => abort.abort());
  const answer = conversation.answer(messages, settings, { signal: abort.signal });
  let last = "";
  for (let next = await answer.next();; next = await answer.next()) {
    if (next.done) {
      if (last !== "" && !last.endsWith("\n")) await writeOut("\n");
      if (next.value.reason === "length") {
        process.stderr.write("surge: the answer was cut off at its greatest length.\n");
      }
      return next.value.reason === "cancelled" ? EXIT.interrupted : EXIT.ok;
    }
    if (next.value.kind === "content") await showOut(last = next.value.text);
  }
}

export const run: Command = {
  name: "run",
  summary: "answer one prompt and exit",
  usage: 'MODEL "prompt"',
  most: Infinity,
  flags: [MODEL_FLAG, ...ANSWER_FLAGS, ...PLAN_FLAGS, ...DRAFT_FLAGS],
  async run(args) {
    const { model: word, rest } = modelAndRest(args);
    if (word === undefined) throw new SurgeError("usage", 'surge run needs a model: surge run MODEL "prompt".');
    const prompt = await promptOf(rest);
    const model = await openForChat(word, args);
    try {
      const system = args.text("system");
      const messages: ChatMessage[] = [...(system ? [{ role: "system", content: system }] : []), {
        role: "user",
        content: prompt,
      }];
      return await answerOnce(model, messages, answerSettings(args, model.manifest));
    } finally {
      await model.client.close();
    }
  },
};
