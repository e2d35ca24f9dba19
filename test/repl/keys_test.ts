/** Terminal bytes to keys. Breaks when a sequence is misread, above all where a read ends in the middle of one. */
import { expect, test } from "bun:test";
import { type Key, KeyDecoder } from "../../src/repl/keys.ts";

function decode(...reads: Array<string | Uint8Array>): Key[] {
  const decoder = new KeyDecoder();
  return reads.flatMap((read) => decoder.push(typeof read === "string" ? Buffer.from(read) : read));
}

function names(...reads: string[]): string[] {
  return decode(...reads).map((key) => key.kind === "key" ? key.name : `${key.kind}:${key.text}`);
}

test("control characters, arrows and Alt", () => {
  expect(names("\r\n\x7f\b\x03\x04\x01\x05")).toEqual([
    "enter",
    "newline",
    "backspace",
    "backspace",
    "interrupt",
    "eof",
    "home",
    "end",
  ]);
  expect(names("\x1b[A\x1bOB\x1b[C\x1b[D\x1b[3~\x1b[1;5D")).toEqual([
    "up",
    "down",
    "right",
    "left",
    "delete",
    "word-left",
  ]);
  expect(names("\x1b\r\x1bb\x1b\x7f")).toEqual(["newline", "word-left", "kill-word"]);
});

test("whatever the reads, the keys are the same", () => {
  const typed = Buffer.from("a你\x1b[D\x1b[1;5C\x1b[200~x\r\ny\x1b[201~\x1bb👩‍👩‍👧\r");
  const whole = decode(typed);
  const joined = (keys: Key[]) => JSON.stringify(keys).replaceAll('"},{"kind":"text","text":"', "");
  for (let cut = 1; cut < typed.length; cut++) {
    expect(joined(decode(typed.subarray(0, cut), typed.subarray(cut)))).toBe(joined(whole));
  }
  expect(joined(decode(...[...typed].map((byte) => Uint8Array.of(byte))))).toBe(joined(whole));
});

test("a paste is one key, its line ends are \\n, and keys inside it do nothing", () => {
  expect(decode("\x1b[200~one\rtwo\r\nthree\x03\x04\x1b[A\x1b[201~\r")).toEqual([
    { kind: "paste", text: "one\ntwo\nthree\x03\x04\x1b[A" },
    { kind: "key", name: "enter" },
  ]);
});

test("of a paste without measure a part is kept, and the rest is not taken for keys", () => {
  const piece = "x\r".repeat(512 * 1024);
  const decoder = new KeyDecoder();
  const keys = ["\x1b[200~", ...Array.from({ length: 8 }, () => piece), "\x1b[20", "1~", "after"].flatMap((read) =>
    decoder.push(Buffer.from(read))
  );
  expect(keys.map((key) => key.kind)).toEqual(["paste", "text"]);
  expect(keys[1]).toEqual({ kind: "text", text: "after" });
});

test("a paste that ends across the limit ends there", () => {
  const decoder = new KeyDecoder();
  const reads = [`\x1b[200~${"x".repeat(4 * 1024 * 1024)}\x1b[20`, "1~\r"];
  const keys = reads.flatMap((read) => decoder.push(Buffer.from(read)));
  expect(keys.map((key) => key.kind === "key" ? key.name : key.kind)).toEqual(["paste", "enter"]);
});

test("sequences without a meaning leave no text behind", () => {
  expect(names("\x1b[5~\x1b[?1;2c\x1b[>0;276;0c\x1b[<0;1;1M\x1b[201~\x1bOP\x00\x1a", "k")).toEqual(["text:k"]);
});

test("the Escape key alone swallows nothing that follows", () => {
  expect(names("\x1b", "a", "\x1b", "\x03", "\x1b", "\x1b[A")).toEqual(["text:a", "interrupt", "up"]);
});

test("bytes that are no UTF-8 become the replacement character", () => {
  expect(decode(Uint8Array.of(0x61, 0xff, 0x62))).toEqual([{ kind: "text", text: "a\ufffdb" }]);
});
