/** From the word MODEL to a manifest, manifest files, and noticing that a file changed under a running engine. */
import { appendFileSync, copyFileSync, mkdirSync, rmSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "bun:test";
import { SurgeError } from "../../src/base/errors.ts";
import type { Manifest } from "../../src/model/manifest.ts";
import { changedFile, readModel } from "../../src/model/source.ts";
import { readTextSource } from "../../src/model/text_source.ts";
import { draftOfGguf, temporaryFolder, writeGguf } from "../fixtures/model_files.ts";
import { GOLDEN_MODELS } from "../support/golden.ts";
import { thrownBy } from "../support/thrown.ts";

const GGUF = join(GOLDEN_MODELS, "q35-r2/model.gguf");
const FOLDER = join(GOLDEN_MODELS, "q35-r2/hf");
const temporary = temporaryFolder();
afterAll(() => rmSync(temporary, { recursive: true }));

function failure(path: string): SurgeError {
  return thrownBy(() => readModel(path));
}

describe("manifest files", () => {
  const save = (manifest: unknown): string => {
    const path = join(temporary, "model.json");
    writeFileSync(path, JSON.stringify(manifest));
    return path;
  };
  const changed = (change: (manifest: Manifest) => void): string => {
    const manifest = readModel(GGUF);
    change(manifest);
    return save(manifest);
  };

  test("what was written is read", () => {
    expect(readModel(save(readModel(GGUF)))).toEqual(readModel(GGUF));
    expect(readModel(save(readModel(FOLDER)))).toEqual(readModel(FOLDER));
  });
  test("relative paths are relative to the manifest", () => {
    const manifest = readModel(save({
      ...readModel(FOLDER),
      text: { kind: "huggingface", tokenizer: "tokenizer.json", chatTemplate: "chat.jinja" },
      files: readModel(FOLDER).files.map((file) => ({ ...file, path: "weights.safetensors" })),
    }));
    expect(manifest.files[0]!.path).toBe(join(temporary, "weights.safetensors"));
    expect(manifest.text).toEqual({
      kind: "huggingface",
      tokenizer: join(temporary, "tokenizer.json"),
      chatTemplate: join(temporary, "chat.jinja"),
    });
  });
  const cases: Array<[string, (manifest: Manifest) => void, RegExp]> = [
    ["a file that is not listed", (m) => (m.tensors[3]!.file = 7), /names file 7/],
    ["a text file that is not listed", (m) => (m.text = { kind: "gguf", file: 1 }), /text names file 1/],
    ["an unknown type", (m) => (m.tensors[3]!.dtype = "Q9_X"), /stored as "Q9_X"/],
    ["a layer too many", (m) => (m.tensors[3]!.layer = 40), /layer 40 of 4/],
    ["a layer without a kind", (m) => void m.config.layerKinds.pop(), /3 layer kinds for 4 layers/],
    ["an unknown role", (m) => (m.tensors[3]!.role = "soul" as never), /tensors.3.role/],
    ["a negative offset", (m) => (m.tensors[3]!.offset = -4), /tensors.3.offset/],
    ["another version", (m) => (m.schema = "surge.manifest/9" as never), /schema/],
  ];
  test.each(cases)("%s is refused", (_name, change, says) => {
    const { kind, message } = failure(changed(change));
    expect(message).toMatch(says);
    expect(message).toContain("model.json");
    expect(kind).toBe("data");
  });
});

describe("words that are no model", () => {
  test("a single .safetensors file: its folder is wanted", () => {
    expect(failure(join(FOLDER, "model.safetensors"))).toMatchObject({ kind: "usage" });
  });
  test("a text file, a folder without a model, a path that is not there", () => {
    const text = join(temporary, "notes.txt");
    writeFileSync(text, "Dear diary, this is not a model at all.");
    expect(failure(text)).toMatchObject({ kind: "data", message: expect.stringContaining("not a GGUF file") });
    expect(failure(temporary)).toMatchObject({ kind: "missing", message: expect.stringContaining("config.json") });
    expect(failure("/nowhere/model.gguf")).toMatchObject({ kind: "missing" });
  });
});

describe("a file that changes while it is in use", () => {
  const fresh = (): Manifest => {
    const path = join(temporary, "live.gguf");
    copyFileSync(GGUF, path);
    return readModel(path);
  };
  test("untouched: nothing to report", () => expect(changedFile(fresh())).toBeUndefined());
  const cases: Array<[string, (path: string) => void, RegExp]> = [
    ["truncated", (path) => truncateSync(path, 1000), /live.gguf changed .* has 1000/],
    ["longer", (path) => appendFileSync(path, "x"), /live.gguf changed/],
    ["rewritten at the same length", (path) => utimesSync(path, 1, 1), /live.gguf changed while/],
    ["removed", (path) => rmSync(path), /live.gguf was removed/],
  ];
  test.each(cases)("%s", (_name, change, says) => {
    const manifest = fresh();
    change(manifest.files[0]!.path);
    expect(changedFile(manifest)).toMatch(says);
  });
});

describe("text sources", () => {
  test("GGUF: the tables that the header reader steps over", () => {
    const source = readTextSource(readModel(GGUF));
    if (source.kind !== "gguf") throw new Error("not a GGUF source");
    expect((source.metadata.get("tokenizer.ggml.tokens") as string[]).length).toBe(288);
    expect(source.chatTemplate).toContain("<|im_start|>");
  });
  test("folder: tokenizer.json and the template; missing ones are named", () => {
    const manifest = readModel(FOLDER);
    const source = readTextSource(manifest);
    expect(source).toMatchObject({ kind: "json", chatTemplate: expect.stringContaining("<|im_start|>") });
    const gone = join(temporary, "tokenizer.json");
    expect(() => readTextSource({ ...manifest, text: { kind: "huggingface", tokenizer: gone } })).toThrow(gone);
  });
});

test("a vocabulary of 248320 tokens is stepped over in under 0.3 s", () => {
  const draft = draftOfGguf(GGUF);
  draft.metadata.set("tokenizer.ggml.tokens", Array.from({ length: 248_320 }, (_, i) => `token ${i}`));
  draft.metadata.set("tokenizer.ggml.merges", Array.from({ length: 247_587 }, (_, i) => `left${i} right${i}`));
  mkdirSync(join(temporary, "big"));
  const path = writeGguf(join(temporary, "big/vocabulary.gguf"), draft);
  const times = [1, 2, 3].map(() => {
    const begin = performance.now();
    readModel(path);
    return performance.now() - begin;
  });
  expect(Math.min(...times)).toBeLessThan(300);
});
