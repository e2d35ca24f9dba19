/** Prints the notices of everything inside the binary: NOTICE, then the licence of each bundled npm package and of the runtime. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pack from "../package.json" with { type: "json" };

const ROOT = join(import.meta.dir, "..");
const RULE = "-".repeat(78);

function licenseOf(name: string): string {
  const folder = join(ROOT, "node_modules", name);
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    version: string;
    license?: string;
  };
  const text = file === undefined
    ? `Licence: ${license ?? "see its repository"}`
    : readFileSync(join(folder, file), "utf8").trim();
  return `${RULE}\n${name} ${version}\n\n${text}\n`;
}

const runtime = `${RULE}
Bun ${pack.devDependencies.bun} (the runtime this program is compiled with)

Bun is MIT-licensed; it contains JavaScriptCore and WebKit parts (LGPL-2.1 and BSD), and other components listed in its LICENSE.md.
`;

process.stdout.write(readFileSync(join(ROOT, "NOTICE"), "utf8"));
for (const name of Object.keys(pack.dependencies)) {
  if (existsSync(join(ROOT, "node_modules", name))) process.stdout.write(`\n${licenseOf(name)}`);
}
process.stdout.write(`\n${runtime}`);
