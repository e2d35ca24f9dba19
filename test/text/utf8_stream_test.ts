/** Characters over every way to cut their bytes: one replaced too early, lost or let out in halves shows here. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Utf8Stream } from "../../src/text/utf8_stream.ts";

function decode(bytes: Uint8Array, cuts: number[]): { pushed: string[]; flushed: string } {
  const stream = new Utf8Stream();
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  const pushed = places.slice(1).map((end, i) => stream.push(bytes.subarray(places[i], end)));
  return { pushed, flushed: stream.flush() };
}

const cuts = fc.array(fc.nat(64), { maxLength: 12 });

test("text comes whole, in whole characters, with nothing left", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }).map((text) => text.toWellFormed()), cuts, (text, cuts) => {
    const { pushed, flushed } = decode(Buffer.from(text), cuts);
    expect(pushed.join("")).toBe(text);
    expect(flushed).toBe("");
    for (const piece of pushed) expect(piece.isWellFormed()).toBe(true);
  }));
});

test("any bytes give what decoding them at once gives", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 64 }), cuts, (bytes, cuts) => {
    const { pushed, flushed } = decode(bytes, cuts);
    expect(pushed.join("") + flushed).toBe(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  }));
});

test("a byte order mark is text, and half a character is replaced only at the end", () => {
  const stream = new Utf8Stream();
  expect(stream.push(Uint8Array.of(0xef, 0xbb, 0xbf, 0xe4, 0xbd))).toBe("\ufeff");
  expect(stream.push(Uint8Array.of(0xa0, 0xf0, 0x9f))).toBe("你");
  expect(stream.flush()).toBe("\ufffd");
});
