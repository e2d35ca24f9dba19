/** `surge version`: version, and with --licenses the notices of everything inside the program. */
import { readFileSync } from "node:fs";
import { EXIT, SurgeError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import type { Command } from "./command.ts";
import { writeOut } from "./stdio.ts";

/** Written by the build and inside the program; from sources that were never built it is not there. */
async function notices(): Promise<Uint8Array> {
  const file = await import("../../build/licenses.txt", { with: { type: "file" } }).catch(() => {
    throw new SurgeError("missing", "build/licenses.txt is not there yet; make build writes it.");
  });
  return readFileSync(file.default);
}

export const version: Command = {
  name: "version",
  summary: "version and third-party notices",
  usage: "[--licenses]",
  most: 0,
  flags: [{ name: "licenses", kind: "switch", help: "print the third-party notices" }],
  async run(args) {
    await writeOut(args.toggle("licenses") ? await notices() : `surge ${VERSION}\n`);
    return EXIT.ok;
  },
};
