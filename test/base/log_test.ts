import { expect, test } from "bun:test";
import { createLog, logLevel, oneLine } from "../../src/base/log.ts";

test("a level shows itself and what is worse; an unknown word is warn", () => {
  const lines: string[] = [];
  const log = createLog(logLevel("nonsense"), (line) => lines.push(line));
  log.error("a");
  log.warn("b");
  log.info("c");
  expect(lines).toEqual(["surge: error: a\n", "surge: warn: b\n"]);
  expect([undefined, "DEBUG", "info"].map(logLevel)).toEqual(["warn", "debug", "info"]);
});

test("a message cannot break its line or drive the terminal", () => {
  expect(oneLine("file \x1b[2Jname\r\nnext\x9b5m\n")).toBe("file  [2Jname next 5m");
});
