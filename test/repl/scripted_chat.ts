/** The chat or one answer in this terminal, with a model that says what the command line says: scripted_chat.ts chat|run TEXT. */
import { join } from "node:path";
import { parseWords } from "../../src/cli/command.ts";
import { answerOnce, run } from "../../src/cli/run.ts";
import { answerSettings, manifestOf } from "../../src/cli/session.ts";
import { startEngine } from "../../src/engine/client.ts";
import { loadModelText } from "../../src/engine/conversation.ts";
import { startRepl } from "../../src/repl/repl.ts";
import { enginePlan } from "../support/engine.ts";

const [mode, said] = process.argv.slice(2) as [string, string];
const manifest = { ...manifestOf("demo"), name: "demo\x1b[5m" };
const text = loadModelText(manifest);
const ids = text.tokenizer.encode(said, "all");
const client = startEngine({ command: [process.execPath, join(import.meta.dir, "scripted_child.ts"), ids.join(",")] });
const plan = enginePlan();
await client.open(manifest, plan);
const model = { client, manifest, plan, text };
const settings = answerSettings(parseWords(run, []), manifest);
if (mode === "chat") await startRepl({ ...model, settings, system: "" });
else await answerOnce(model, [{ role: "user", content: "Hi" }], settings);
await client.close();
process.exit();
