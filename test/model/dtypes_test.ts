/** One list of formats: if TypeScript and C disagreed, every offset computed from a block size would be wrong. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "bun:test";
import { dtypeOfId, DTYPES, tensorBytes } from "../../src/model/dtypes.ts";

test("the table is that of csrc/quant/formats.def.h", () => {
  const source = readFileSync(join(import.meta.dir, "../../csrc/quant/formats.def.h"), "utf8");
  const rows = [...source.matchAll(/X\((\d+), (\w+), (\d+), (\d+)\)/g)].map(([, id, name, elements, bytes]) => ({
    id: Number(id),
    name: name!,
    blockElements: Number(elements),
    blockBytes: Number(bytes),
  }));
  expect(rows.length).toBeGreaterThan(25);
  expect([...DTYPES.values()]).toEqual(rows);
});

test("a row must be whole blocks", () => {
  const q4k = dtypeOfId(12)!;
  expect(tensorBytes(q4k, 3, 512)).toBe(3 * 2 * 144);
  expect(tensorBytes(q4k, 3, 288)).toBeUndefined();
  expect(dtypeOfId(36)).toBeUndefined();
});
