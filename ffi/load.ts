/**
 * Finding and opening libsurge.so. The library inside a compiled binary is not a real file, so there is a ladder:
 * a real path beside the program → memfd (works with a read-only or noexec /tmp) → a private temporary file, removed at once.
 */
import { dlopen, ptr } from "bun:ffi";
import { mkdtempSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf, SurgeError } from "../src/base/errors.ts";
import { ABI_VERSION, LAYOUT_HASH, surge_abi_info } from "./layout.gen.ts";
import { SYMBOLS } from "./symbols.ts";
import { StructArray } from "./table.ts";

function open(path: string) {
  return dlopen(path, SYMBOLS);
}
export type Library = ReturnType<typeof open>["symbols"];

/** A file in memory with the given content, as a path that lasts as long as the process; CLOEXEC. */
export function memoryFile(name: string, content: Uint8Array): string {
  const libc = dlopen("libc.so.6", { memfd_create: { args: ["ptr", "u32"], returns: "i32" } });
  const fd = libc.symbols.memfd_create(ptr(new TextEncoder().encode(`${name}\0`)), 1);
  if (fd < 0) throw new Error("memfd_create failed");
  for (let done = 0; done < content.length;) done += writeSync(fd, content, done, content.length - done);
  return `/proc/self/fd/${fd}`;
}

function fromTemporaryFile(content: Uint8Array): Library {
  const folder = mkdtempSync(join(tmpdir(), "surge-"));
  const path = join(folder, "libsurge.so");
  try {
    writeFileSync(path, content, { mode: 0o700 });
    return open(path).symbols;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function isEmbedded(path: string): boolean {
  return path.startsWith("/$bunfs/");
}

/** The rungs that apply to a path, in order. */
export function ladder(path: string): Array<{ name: string; load: () => Library }> {
  const content = () => readFileSync(path);
  const real = { name: path, load: () => open(path).symbols };
  const copies = [
    { name: "memory file", load: () => open(memoryFile("libsurge", content())).symbols },
    { name: `temporary file in ${tmpdir()}`, load: () => fromTemporaryFile(content()) },
  ];
  return isEmbedded(path) ? copies : [real, ...copies];
}

function checkAbi(library: Library): void {
  const info = new StructArray(surge_abi_info);
  library.surge_abi(ptr(info.bytes));
  if (info.get("abi_version") !== ABI_VERSION || info.big("layout_hash") !== LAYOUT_HASH) {
    throw new SurgeError("internal", "The C library and the program are of different versions; build both again.");
  }
}

/** Opens the library and compares its layout with ours before anything else is called. */
export function loadLibrary(path: string): Library {
  const failures: string[] = [];
  for (const rung of ladder(path)) {
    try {
      const library = rung.load();
      checkAbi(library);
      return library;
    } catch (thrown) {
      if (thrown instanceof SurgeError) throw thrown;
      failures.push(`${rung.name}: ${messageOf(thrown)}`);
    }
  }
  throw new SurgeError("unavailable", `The engine's library could not be loaded (${failures.join("; ")}).`);
}
