/** `surge version`: version, and with --licenses the notices of everything inside the program. */
import { readFileSync } from "node:fs";
import licensesPath from "../../build/licenses.txt" with { type: "file" };
import { EXIT } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import type { Command } from "./command.ts";
import { writeOut } from "./stdio.ts";

export const version: Command = {
  name: "version",
  summary: "version and third-party notices",
  usage: "[--licenses]",
  flags: [{ name: "licenses", kind: "switch", help: "print the third-party notices" }],
  async run(args) {
    await writeOut(args.toggle("licenses") ? readFileSync(licensesPath) : `surge ${VERSION}\n`);
    return EXIT.ok;
  },
};
