import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { warmFiles } from "../../src/engine/warm.ts";
import { statFile } from "../../src/model/file_reader.ts";

const MIB = 1024 * 1024;

/** Progress while two files of 20 and 1 MiB are warmed, with a clock on which every look takes `tickMs`. */
async function progressOf(tickMs: number): Promise<number[]> {
  const folder = mkdtempSync(join(tmpdir(), "surge-test-"));
  const files = [20, 1].map((mib) => {
    const path = join(folder, `${mib}.gguf`);
    writeFileSync(path, new Uint8Array(mib * MIB));
    return statFile(path);
  });
  const done: number[] = [];
  let nowMs = 0;
  await warmFiles(files, {
    onProgress: (bytes, total) => done.push(bytes / MIB, total / MIB),
    clock: () => nowMs += tickMs,
  });
  rmSync(folder, { recursive: true });
  return done;
}

test("files that a disk would have to deliver are read in pieces to their end", async () => {
  expect(await progressOf(1)).toEqual([8, 21, 16, 21, 20, 21, 21, 21]);
});

test("files that are in the cache are not read again", async () => {
  expect(await progressOf(0.001)).toEqual([20, 21, 21, 21]);
});
