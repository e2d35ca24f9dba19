/** `surge chat [MODEL]`: a conversation in the terminal; without one, standard input is the one message. */
import { EXIT, SurgeError } from "../base/errors.ts";
import { startRepl } from "../repl/repl.ts";
import { type Command, modelAndRest } from "./command.ts";
import { ANSWER_FLAGS, DRAFT_FLAGS, MODEL_FLAG, PLAN_FLAGS } from "./flags.ts";
import { answerOnce } from "./run.ts";
import { answerSettings, openForChat } from "./session.ts";
import { readStandardInput } from "./stdio.ts";

export const chat: Command = {
  name: "chat",
  summary: "chat in the terminal",
  usage: "[MODEL]",
  most: 1,
  flags: [MODEL_FLAG, ...ANSWER_FLAGS, ...PLAN_FLAGS, ...DRAFT_FLAGS],
  async run(args) {
    const interactive = process.stdin.isTTY === true && process.stdout.isTTY === true;
    const piped = interactive ? "" : (await readStandardInput()).trimEnd();
    if (!interactive && piped === "") {
      throw new SurgeError("usage", "surge chat needs a terminal, or a message on standard input.");
    }
    const model = await openForChat(modelAndRest(args).model ?? "demo", args);
    const settings = answerSettings(args, model.manifest);
    const system = args.text("system") ?? "";
    try {
      if (interactive) await startRepl({ ...model, settings, system });
      else {
        const before = system === "" ? [] : [{ role: "system", content: system }];
        return await answerOnce(model, [...before, { role: "user", content: piped }], settings);
      }
      return EXIT.ok;
    } finally {
      await model.client.close();
    }
  },
};
