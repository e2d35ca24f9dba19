/** `surge tokenize`: what a text becomes for the model. */
import { EXIT, SurgeError } from "../base/errors.ts";
import { loadModelText } from "../engine/conversation.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import { printable } from "../base/printable.ts";
import { type Command, modelAndRest } from "./command.ts";
import { MODEL_FLAG } from "./flags.ts";
import { manifestOf } from "./session.ts";
import { readStandardInput, writeOut } from "./stdio.ts";

/** A token's text; bytes that are no whole character as \xE4. */
function shown(tokenizer: Tokenizer, id: number): string {
  const text = tokenizer.decode([id]);
  const bytes = tokenizer.bytes(id);
  if (Buffer.from(text).equals(bytes)) return printable(JSON.stringify(text));
  return `"${[...bytes].map((byte) => `\\x${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("")}"`;
}

export const tokenize: Command = {
  name: "tokenize",
  summary: "show the tokens of a text",
  usage: "MODEL [TEXT] [--ids|--json] [--special]",
  most: Infinity,
  flags: [
    MODEL_FLAG,
    { name: "ids", kind: "switch", help: "ids only, separated by commas" },
    { name: "json", kind: "switch", help: "a JSON array of {id, text}" },
    { name: "special", kind: "switch", help: "recognise special tokens in the text" },
  ],
  async run(args) {
    const { model, rest } = modelAndRest(args);
    if (model === undefined) throw new SurgeError("usage", `surge tokenize ${this.usage}`);
    const text = rest.length > 0 ? rest.join(" ") : await readStandardInput();
    const { tokenizer } = loadModelText(manifestOf(model));
    const ids = tokenizer.encode(text, args.toggle("special") ? "all" : "none");
    if (args.toggle("json")) {
      await writeOut(`${JSON.stringify(ids.map((id) => ({ id, text: tokenizer.decode([id]) })))}\n`);
    } else if (args.toggle("ids")) await writeOut(`${ids.join(",")}\n`);
    else await writeOut(ids.map((id) => `${String(id).padStart(7)}  ${shown(tokenizer, id)}\n`).join(""));
    return EXIT.ok;
  },
};
