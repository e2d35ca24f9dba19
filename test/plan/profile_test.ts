/** A profile is a file, and so nothing in it is believed. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type MachineKey, readMachineKey } from "../../src/plan/machine_key.ts";
import { type Figures, loadProfile, prepareProfile, saveProfile } from "../../src/plan/profile.ts";
import { thrownBy } from "../support/thrown.ts";

const MACHINE: MachineKey = { ...readMachineKey(), installation: "0123456789abcdef", adapters: ["fedcba9876543210"] };
const FIGURES: Figures = {
  isa: "avx2",
  threads: 2,
  bandwidth_gbps: 25.5,
  int8_gops: 400,
  measured: "2026-12-07T10:00:00.000Z",
};
let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "profile-"));
  path = join(folder, "surge/profile.json");
});
afterEach(() => rmSync(folder, { recursive: true }));

const load = () => loadProfile({ path, machine: MACHINE });
const save = (changes: Partial<Figures> = {}) => saveProfile({ ...FIGURES, ...changes }, { path, machine: MACHINE });

function expectRefused(words: RegExp): void {
  const error = thrownBy(load);
  expect([error.exitCode, error.kind]).toEqual([78, "config"]);
  expect(error.message).toMatch(words);
  expect(error.message).toMatch(/^[^\n]*profile\.json[^\n]*\.$/);
  expect(error.message).not.toMatch(/[^\x20-\x7e]/);
}

test("what was saved is loaded; other kernels and thread counts stay beside it, the same ones are replaced", () => {
  expect(load()).toBeUndefined();
  expect(save()).toEqual({});
  expect(load()).toEqual({ schema: "surge.profile/1", machine: MACHINE, figures: [FIGURES] });
  save({ threads: 1, bandwidth_gbps: 14 });
  save({ isa: "ref" });
  save({ bandwidth_gbps: 26 });
  expect(load()!.figures.map(({ isa, threads, bandwidth_gbps }) => [isa, threads, bandwidth_gbps])).toEqual([
    ["avx2", 1, 14],
    ["ref", 2, 25.5],
    ["avx2", 2, 26],
  ]);
});

test("the file is the person's own, and nothing else is left in its folder", () => {
  save();
  save();
  expect(readdirSync(join(folder, "surge"))).toEqual(["profile.json"]);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder, "surge")).mode & 0o777).toBe(0o700);
});

test("the oldest figures give way to new ones", () => {
  for (let threads = 1; threads <= 40; threads++) save({ threads });
  const { figures } = load()!;
  expect([figures.length, figures[0]!.threads, figures.at(-1)!.threads]).toEqual([32, 9, 40]);
});

test("a foreign profile is refused, and gives way to this machine's when that is saved", () => {
  saveProfile(FIGURES, { path, machine: { ...MACHINE, adapters: ["0000000000000001"] } });
  expectRefused(/is of another machine \(none of its network adapters is here\); surge bench bandwidth --save-profile/);
  expect(save({ threads: 1 }).replaced).toContain("another machine");
  expect(load()!.figures.map(({ threads }) => threads)).toEqual([1]);
});

test.each<[string, (text: string) => string]>([
  ["no JSON", () => "{"],
  ["nothing", () => ""],
  ["another schema", (text) => text.replace("surge.profile/1", "surge.profile/2")],
  ["a speed of nothing", (text) => text.replace("25.5", "0")],
  ["a speed beyond numbers", (text) => text.replace("25.5", "1e999")],
  ["threads as text", (text) => text.replace('"threads": 2', '"threads": "2"')],
  ["a field that nobody declared", (text) => text.replace('"threads"', '"more": 1, "threads"')],
  ["a field missing", (text) => text.replace(/"int8_gops": 400,/, "")],
  ["a terminal's commands for kernels", (text) => text.replace('avx2"', '\\u001b[2J"')],
  ["a terminal's commands for a field's name", (text) => text.replace('"threads"', '"\\u001b[2J": 1, "threads"')],
  ["figures without end", (text) => text.replace(/"figures": \[/, `"figures": [${"{},".repeat(1000)}`)],
  ["brackets without end", () => "[".repeat(60_000)],
])("damaged: %s", (_what, damage) => {
  save();
  writeFileSync(path, damage(readFileSync(path, "utf8")));
  expectRefused(/is damaged or of another version \(.+\); surge bench bandwidth --save-profile makes it anew/);
  expect(save().replaced).toContain("damaged");
  expect(load()!.figures).toEqual([FIGURES]);
});

test("truncated anywhere it is refused", () => {
  save();
  const bytes = statSync(path).size;
  for (let length = bytes - 2; length >= 0; length -= 7) {
    truncateSync(path, length);
    expectRefused(/damaged/);
  }
});

test("too big it is not read, whatever it holds; a sparse file of a terabyte as well", () => {
  save();
  writeFileSync(path, readFileSync(path, "utf8") + " ".repeat(64 * 1024));
  expectRefused(/too large/);
  truncateSync(path, 2 ** 40);
  expectRefused(/too large/);
});

test("a folder or a pipe in its place is refused and not waited for", () => {
  mkdirSync(path, { recursive: true });
  expectRefused(/not a regular file/);
  expect(thrownBy(save).message).toContain("cannot be written");
  rmSync(path, { recursive: true });
  expect(Bun.spawnSync(["mkfifo", path]).exitCode).toBe(0);
  expectRefused(/not a regular file/);
});

test("a link is read through, and replaced by saving; what it points to is left alone", () => {
  save();
  const elsewhere = join(folder, "elsewhere.json");
  writeFileSync(elsewhere, readFileSync(path));
  rmSync(path);
  symlinkSync(elsewhere, path);
  expect(load()!.figures).toEqual([FIGURES]);
  save({ threads: 7 });
  expect(lstatSync(path).isSymbolicLink()).toBe(false);
  expect(readFileSync(elsewhere, "utf8")).not.toContain('"threads": 7');
  rmSync(path);
  symlinkSync(path, path);
  expectRefused(/cannot be read \(ELOOP\)/);
  rmSync(path);
  symlinkSync(join(folder, "nowhere.json"), path);
  expect(load()).toBeUndefined();
  save();
  expect(existsSync(join(folder, "nowhere.json"))).toBe(false);
});

test("a folder that cannot be written is a sentence, before measuring and behind it", () => {
  writeFileSync(join(folder, "surge"), "a file in the folder's place");
  for (const action of [() => prepareProfile({ path, machine: MACHINE }), save]) {
    const error = thrownBy(action);
    expect([error.exitCode, error.message]).toEqual([
      66,
      expect.stringMatching(/^The machine's profile cannot be written to .*profile\.json \((EEXIST|ENOTDIR)\); .*\.$/),
    ]);
  }
});

test("a folder in which no file can be made is a sentence too, for root as well", () => {
  const error = thrownBy(() => saveProfile(FIGURES, { path: "/proc/self/profile.json", machine: MACHINE }));
  expect(error.message).toMatch(/^The machine's profile cannot be written to \/proc\/self\/profile\.json \([A-Z]+\); /);
});
