/** All commands, in the order help lists them. */
import { bench } from "./bench.ts";
import { chat } from "./chat.ts";
import type { Command } from "./command.ts";
import { info } from "./info.ts";
import { logits } from "./logits.ts";
import { run } from "./run.ts";
import { tokenize } from "./tokenize.ts";
import { version } from "./version.ts";

export const COMMANDS: readonly Command[] = [chat, run, logits, tokenize, bench, info, version];
