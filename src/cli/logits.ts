/** `surge logits`: raw logits of given token ids into a file, for comparison with other engines. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { EXIT, SurgeError } from "../base/errors.ts";
import { logitsPlan } from "../plan/default_plan.ts";
import { readMachine } from "../plan/machine.ts";
import { type Command, modelAndRest } from "./command.ts";
import { MODEL_FLAG, PLAN_FLAGS } from "./flags.ts";
import { manifestOf, openEngine, planFlags } from "./session.ts";

const FILE_LIMIT_BYTES = 64 * 1024 * 1024;

/** Ids from "1,2,3" or from a file of numbers separated by commas or white space. */
function readIds(given: string, vocab: number): number[] {
  const isList = /^[\d\s,]+$/.test(given);
  if (!isList && !existsSync(given)) {
    throw new SurgeError("missing", `--tokens ${given} is neither a list of ids nor a file.`);
  }
  if (!isList && statSync(given).size > FILE_LIMIT_BYTES) {
    throw new SurgeError("data", `${given} is too large for a list of token ids.`);
  }
  const words = (isList ? given : readFileSync(given, "utf8")).split(/[\s,]+/).filter((word) => word !== "");
  const bad = words.find((word) => !/^\d+$/.test(word) || Number(word) >= vocab);
  if (bad !== undefined) throw new SurgeError("data", `"${bad.slice(0, 20)}" is not a token id below ${vocab}.`);
  if (words.length === 0) throw new SurgeError("usage", "--tokens holds no token id.");
  return words.map(Number);
}

export const logits: Command = {
  name: "logits",
  summary: "write raw logits of token ids to a file (float32; exact unless told otherwise)",
  usage: "MODEL --tokens 1,2,3|FILE -o OUT.f32 [--all]",
  most: 1,
  flags: [
    MODEL_FLAG,
    { name: "tokens", kind: "text", value: "IDS|FILE", help: "token ids, or a file of them" },
    {
      name: "output",
      alias: ["o"],
      kind: "text",
      value: "FILE",
      help: "file to write: little-endian float32, [rows][vocabulary]",
    },
    { name: "all", kind: "switch", help: "logits at every position instead of the last" },
    ...PLAN_FLAGS,
  ],
  async run(args) {
    const { model } = modelAndRest(args);
    const tokens = args.text("tokens");
    const output = args.text("output");
    if (model === undefined || tokens === undefined || output === undefined) {
      throw new SurgeError("usage", `surge logits ${this.usage}`);
    }
    const manifest = manifestOf(model);
    const ids = readIds(tokens, manifest.config.vocab);
    const plan = logitsPlan(manifest.config, { flags: planFlags(args), machine: readMachine(), tokens: ids.length });
    const client = await openEngine(manifest, plan);
    const abort = new AbortController();
    process.once("SIGINT", () => abort.abort());
    try {
      const { rows, vocab } = await client.logits({ ids, all: args.toggle("all") === true, path: resolve(output) }, {
        signal: abort.signal,
      });
      process.stderr.write(`${output}: ${rows} x ${vocab} float32\n`);
      return EXIT.ok;
    } finally {
      await client.close();
    }
  },
};
