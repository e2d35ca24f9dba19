/** The ladder to the C library. Breaks when a rung is lost, leaves litter, or a library of another layout is called. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ladder, type Library, loadLibrary, memoryFile } from "../../ffi/load.ts";
import { newError } from "../../ffi/status.ts";
import { SurgeError } from "../../src/base/errors.ts";
import { LIBRARY_PATH } from "../support/native.ts";

const folder = mkdtempSync(join(tmpdir(), "surge-load-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

function written(name: string, content: Uint8Array | string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** A call that reaches the library and is refused by it. */
function answers(library: Library): boolean {
  return library.surge_sequence_close(null, 0, newError().bytes) === -1;
}

function thrownBy(path: string): SurgeError {
  try {
    loadLibrary(path);
  } catch (thrown) {
    if (thrown instanceof SurgeError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was thrown");
}

describe("rungs", () => {
  test("a real file first, copies after it; inside a compiled binary the copies alone", () => {
    const names = (path: string) => ladder(path).map((rung) => rung.name.split(" ")[0]);
    expect(names("/opt/libsurge.so")).toEqual(["/opt/libsurge.so", "memory", "temporary"]);
    expect(names("/$bunfs/root/libsurge-1a2b.so")).toEqual(["memory", "temporary"]);
  });

  test.each([0, 1, 2])("rung %d loads a working library and leaves no file", (index) => {
    const usual = process.env["TMPDIR"];
    const empty = mkdtempSync(join(folder, "tmp-"));
    process.env["TMPDIR"] = empty;
    const rung = ladder(LIBRARY_PATH)[index]!;
    expect(rung.name.includes(empty)).toBe(index === 2);
    expect(answers(rung.load())).toBe(true);
    expect(readdirSync(empty)).toEqual([]);
    if (usual === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = usual;
  });

  test("a memory file holds what it was given", () => {
    const content = crypto.getRandomValues(new Uint8Array(50_000));
    expect(new Uint8Array(readFileSync(memoryFile("test", content)))).toEqual(content);
  });
});

/** Runs a script with TMPDIR and the library on a mount of its own without the right to execute; needs the right to mount. */
function onNoexecMount(script: string): { exitCode: number; stdout: string; stderr: string } {
  const mount =
    `mount -t tmpfs -o noexec tmpfs "$0" && cp "$1" "$0/libsurge.so" && cd "$2" && TMPDIR="$0" exec "$3" -e "$4"`;
  const root = join(import.meta.dir, "../..");
  const target = mkdtempSync(join(folder, "noexec-"));
  const command = ["unshare", "-m", "sh", "-c", mount, target, LIBRARY_PATH, root, process.execPath];
  const run = Bun.spawnSync([...command, script.replaceAll("TARGET", join(target, "libsurge.so"))]);
  return { exitCode: run.exitCode, stdout: run.stdout.toString(), stderr: run.stderr.toString() };
}

const MAY_MOUNT = onNoexecMount("0").exitCode === 0;

test.skipIf(!MAY_MOUNT)("where nothing may be executed, the memory file does it", () => {
  const run = onNoexecMount(`
    import { ladder, loadLibrary } from "./ffi/load.ts";
    const tried = ladder("TARGET").map(({ load }) => { try { load(); return true; } catch { return false; } });
    loadLibrary("TARGET");
    console.log(JSON.stringify(tried));`);
  expect(run.stdout.trim()).toBe("[false,true,false]");
});

describe("refusals", () => {
  test("a file that is no library: unavailable, with every rung and its reason", () => {
    const thrown = thrownBy(written("garbage.so", "not a library"));
    expect(thrown.kind).toBe("unavailable");
    for (const rung of ["garbage.so: ", "memory file: ", `temporary file in ${tmpdir()}: `]) {
      expect(thrown.message).toContain(rung);
    }
  });

  test("no file: unavailable", () => expect(thrownBy(join(folder, "absent.so")).kind).toBe("unavailable"));

  test("a library whose layout differs by one field is not called", () => {
    const content = readFileSync(LIBRARY_PATH);
    const at = content.indexOf("frequency_penalty\0");
    expect(at).toBeGreaterThan(0);
    content.write("frequency_penaltX", at);
    expect(thrownBy(written("other.so", content)).message).toMatch(/different versions/);
  });
});
