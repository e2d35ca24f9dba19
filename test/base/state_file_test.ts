import { expect, test } from "bun:test";
import { stateFile } from "../../src/base/state_file.ts";

test("the state directory, or the one under home; relative paths do not count", () => {
  expect(stateFile("a.json", { XDG_STATE_HOME: "/s", HOME: "/h" })).toBe("/s/surge/a.json");
  expect(stateFile("a.json", { XDG_STATE_HOME: "", HOME: "/h" })).toBe("/h/.local/state/surge/a.json");
  expect(stateFile("a.json", { XDG_STATE_HOME: "s", HOME: "/h" })).toBe("/h/.local/state/surge/a.json");
  expect(stateFile("a.json", { HOME: "h" })).toBeUndefined();
  expect(stateFile("a.json", {})).toBeUndefined();
});
