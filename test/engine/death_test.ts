import { expect, test } from "bun:test";
import { deathError } from "../../src/engine/death.ts";
import type { Death } from "../../src/engine/child_process.ts";
import { readModel } from "../../src/model/source.ts";
import { GOLDEN_MODEL } from "../support/engine.ts";

const manifest = readModel(GOLDEN_MODEL);

function death(changes: Partial<Death>): Death {
  return { pid: 1, wanted: false, signal: null, exitCode: null, lastLine: "", ...changes };
}

test("each way to die has its sentence, kind and exit code", () => {
  const told = (changes: Partial<Death>) => {
    const { kind, exitCode } = deathError(death(changes), manifest);
    return [kind, exitCode];
  };
  expect(told({ wanted: true })).toEqual(["interrupted", 130]);
  expect(told({ signal: "SIGKILL" })).toEqual(["memory", 71]);
  expect(told({ signal: "SIGBUS" })).toEqual(["data", 65]);
  expect(told({ signal: "SIGSEGV" })).toEqual(["internal", 70]);
  expect(told({ exitCode: 0 })).toEqual(["internal", 70]);
});

test("a crash's own words never reach a person, an ordered exit's last line does", () => {
  const banner = "oh no: Bun has crashed. This indicates a bug in Bun, not your code. https://bun.report/1.4.5/abc";
  const crash = deathError(death({ signal: "SIGSEGV", lastLine: banner }), manifest);
  expect(crash.message).toBe("The engine stopped unexpectedly (SIGSEGV); open the model again.");
  const internal = deathError(death({ exitCode: 70, lastLine: "TypeError: undefined is not a function" }), manifest);
  expect(internal.message).toBe("The engine stopped unexpectedly (exit code 70); open the model again.");
  const ordered = deathError(death({ exitCode: 69, lastLine: "The engine's library could not be loaded." }), manifest);
  expect(ordered).toMatchObject({ kind: "unavailable", message: "The engine's library could not be loaded." });
});

test("whatever the signal, a file that changed is the reason", () => {
  const stale = { ...manifest, files: manifest.files.map((file) => ({ ...file, bytes: file.bytes + 1 })) };
  for (const signal of ["SIGBUS", "SIGSEGV", "SIGTRAP", "SIGABRT"]) {
    expect(deathError(death({ signal }), stale)).toMatchObject({ kind: "data" });
    expect(deathError(death({ signal }), stale).message).toContain(`${GOLDEN_MODEL} changed while it was in use`);
  }
});
