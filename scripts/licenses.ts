/** Prints the notices of everything inside the binary: NOTICE, then the licence of each bundled npm package and of the runtime. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pack from "../package.json" with { type: "json" };

const ROOT = join(import.meta.dir, "..");
const RULE = "-".repeat(78);

interface Package {
  version: string;
  dependencies?: Record<string, string>;
}

function describe(name: string): Package {
  return JSON.parse(readFileSync(join(ROOT, "node_modules", name, "package.json"), "utf8")) as Package;
}

/** Every package that ends up inside the program: the dependencies and theirs. */
function bundled(names: string[], seen = new Set<string>()): Set<string> {
  for (const name of names) {
    if (seen.has(name)) continue;
    seen.add(name);
    bundled(Object.keys(describe(name).dependencies ?? {}), seen);
  }
  return seen;
}

/** A package without a licence file stops the build: the program must not ship without its notice. */
function licenseOf(name: string): string {
  const folder = join(ROOT, "node_modules", name);
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined) {
    throw new Error(`${name} has no licence file in ${folder}; add its notice to NOTICE by hand.`);
  }
  return `${RULE}\n${name} ${describe(name).version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}

const runtime = `${RULE}
Bun ${pack.devDependencies.bun}, the runtime inside this program: MIT License

Bun contains JavaScriptCore and parts of WebKit (LGPL 2.0 and 2.1, BSD) and TinyCC (LGPL 2.1), linked statically. Their sources, and how to
link Bun again with changed ones: https://github.com/oven-sh/webkit and LICENSE.md of https://github.com/oven-sh/bun.
It also contains, under the licences named:
  MIT: brotli, c-ares, libdeflate, ls-hpack, ls-qpack, lsquic, mimalloc, picohttpparser, uucode, esbuild (ported parts), Node polyfill packages
  BSD: libbase64, libspng, libwebp, lol-html, zstd
  Apache 2.0: highway, libc++abi (a part), simdutf, TigerBeetle (parts), uSockets, uWebSockets
  own licences: BoringSSL, ICU, libarchive, libjpeg-turbo, zlib-ng
`;

process.stdout.write(readFileSync(join(ROOT, "NOTICE"), "utf8"));
for (const name of bundled(Object.keys(pack.dependencies))) process.stdout.write(`\n${licenseOf(name)}`);
process.stdout.write(`\n${runtime}`);
