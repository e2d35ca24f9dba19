/** `surge tokenize`: what a text becomes for the model. */
import { EXIT, SurgeError } from "../base/errors.ts";
import { loadModelText } from "../engine/conversation.ts";
import type { Command } from "./command.ts";
import { MODEL_FLAG } from "./flags.ts";
import { manifestOf } from "./session.ts";
import { readStandardInput, writeOut } from "./stdio.ts";

export const tokenize: Command = {
  name: "tokenize",
  summary: "show the tokens of a text",
  usage: "MODEL [TEXT] [--ids|--json] [--special]",
  flags: [
    MODEL_FLAG,
    { name: "ids", kind: "switch", help: "ids only, separated by commas" },
    { name: "json", kind: "switch", help: "a JSON array of {id, text}" },
    { name: "special", kind: "switch", help: "recognise special tokens in the text" },
  ],
  async run(args) {
    const named = args.text("model");
    const [model, ...words] = named === undefined ? args.positional : [named, ...args.positional];
    if (model === undefined) throw new SurgeError("usage", `surge tokenize ${this.usage}`);
    const text = words.length > 0 ? words.join(" ") : await readStandardInput();
    const { tokenizer } = loadModelText(manifestOf(model));
    const ids = tokenizer.encode(text, args.toggle("special") ? "all" : "none");
    const rows = ids.map((id) => ({ id, text: tokenizer.decode([id]) }));
    if (args.toggle("json")) await writeOut(`${JSON.stringify(rows)}\n`);
    else if (args.toggle("ids")) await writeOut(`${ids.join(",")}\n`);
    else await writeOut(rows.map((row) => `${String(row.id).padStart(7)}  ${JSON.stringify(row.text)}\n`).join(""));
    return EXIT.ok;
  },
};
