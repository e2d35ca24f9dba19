/** The repository's rules catch what they forbid; a rule that cannot fail protects nothing. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { findFaults } from "../../scripts/check_layers.ts";
import { sumCounts } from "../../scripts/test_summary.ts";
import { faultsOf } from "../../scripts/tidy.ts";

function faultsOfTree(files: Record<string, string>): string[] {
  const root = mkdtempSync(join(tmpdir(), "layers-"));
  try {
    for (const folder of ["src", "ffi", "csrc"]) mkdirSync(join(root, folder));
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    return findFaults(root);
  } finally {
    rmSync(root, { recursive: true });
  }
}

test("imports that go up, sideways or into ffi are faults; downward ones are not", () => {
  expect(faultsOfTree({ "src/base/a.ts": 'import "../engine/b.ts"; import { x } from "../engine/b.ts";' }))
    .toHaveLength(2);
  expect(faultsOfTree({ "src/cli/a.ts": 'import { x } from "../../ffi/engine.ts";' })[0]).toContain(
    "only src/engine/host.ts",
  );
  expect(faultsOfTree({ "src/text/a.ts": 'import { x } from "../plan/b.ts";' })).toHaveLength(1);
  expect(faultsOfTree({ "csrc/os/a.c": '#include "engine/b.h"\n' })).toHaveLength(1);
  expect(faultsOfTree({ "csrc/cpu/a.c": '#include "npu/b.h"\n#include "base/c.h"\n' }))
    .toEqual(["csrc/cpu/a.c: cpu may not include npu"]);
  expect(faultsOfTree({ "csrc/npu/a.c": '#include "cpu/b.h"\n' })).toEqual([
    "csrc/npu/a.c: npu may not include cpu",
  ]);
  expect(
    faultsOfTree({ "src/cli/a.ts": 'import { x } from "../engine/b.ts";', "csrc/api.c": '#include "engine/b.h"\n' }),
  ).toEqual([]);
});

test("long files, long functions, missing heads and empty names are faults", () => {
  const head = "/** Head. */\n";
  expect(faultsOf("src/a.ts", `${head}const x = 1;\n`)).toEqual([]);
  expect(faultsOf("src/a.ts", "const x = 1;\n")[0]).toContain("no head comment");
  expect(faultsOf("src/a.ts", head + "\n".repeat(700))[0]).toContain("lines");
  expect(faultsOf("src/a.ts", `${head}function f() {\n${"  x();\n".repeat(80)}}\n`)[0]).toContain(
    "a function of 82 lines",
  );
  const body = `${"  x();\n".repeat(80)}}\n`;
  for (
    const [path, signature] of [
      ["src/a.ts", "export function f(\n  a: number,\n): void {\n"],
      ["src/a.ts", "const f = async (a: number) => {\n"],
      ["csrc/a.c", "static int f(int a,\n             int b) {\n"],
      ["csrc/a.c", "int f(void)\n{\n"],
    ] as const
  ) {
    expect(faultsOf(path, head + signature + body)).toEqual([expect.stringMatching(/:2: a function of 8\d lines/)]);
  }
  expect(faultsOf("csrc/cpu/kernels/k/ref.c", `${head}void f(void) {\n${body}`)).toEqual([]);
  expect(faultsOf("src/a.ts", `${head}if (\n  x()\n) {\n${body}`)).toEqual([]);
  expect(faultsOf("src/utils.ts", head)[0]).toContain("says nothing");
});

test("the last line sums both runners", () => {
  const junit = '<testsuites name="bun" tests="10" assertions="9" failures="2" skipped="1" time="1">';
  expect(sumCounts("3 passed, 1 failed, 0 skipped\n4 passed, 0 failed, 2 skipped\n", junit)).toEqual({
    passed: 14,
    failed: 3,
    skipped: 3,
  });
});
