/** Editing by grapheme, history and layout. Breaks when a character is cut in half or the cursor is drawn in the wrong place. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Key, KeyName } from "../../src/repl/keys.ts";
import { LineEditor } from "../../src/repl/line_editor.ts";

/** Words in <> are keys, the rest is typed. */
function type(editor: LineEditor, keys: string): LineEditor {
  for (const [part] of keys.matchAll(/<[a-z-]+>|[^<]+/g)) {
    editor.handle(part.startsWith("<") ? key(part.slice(1, -1) as KeyName) : { kind: "text", text: part });
  }
  return editor;
}

function key(name: KeyName): Key {
  return { kind: "key", name };
}

/** The text with | at the cursor. */
function shown(keys: string): string {
  const { text, cursor } = type(new LineEditor(), keys);
  return `${text.slice(0, cursor)}|${text.slice(cursor)}`;
}

describe("editing", () => {
  test.each([
    ["你好<left><backspace>", "|好"],
    ["你好世界<left><delete>", "你好世|"],
    ["a👨‍👩‍👧b<left><backspace>", "a|b"],
    ["e\u0301x<left><left>", "|e\u0301x"],
    ["🇫🇷🇩🇪<backspace>", "🇫🇷|"],
    ["one two  <kill-word>", "one |"],
    ["one two<word-left>x", "one x|two"],
    ["one two<home><word-right>", "one| two"],
    ["ab<newline>cd<home>x", "ab\nx|cd"],
    ["ab<newline>cd<left><kill-start>", "ab\n|d"],
    ["ab<newline>cd<up><kill-end>", "ab|\ncd"],
    ["abcd<newline>你好<up><down>", "abcd\n你好|"],
    ["<backspace><delete><left><right><kill-word>", "|"],
  ])("%s", (keys, expected) => expect(shown(keys)).toBe(expected));

  test("the cursor is always between characters", () => {
    const part = fc.constantFrom(
      "a",
      "你",
      "👨‍👩‍👧",
      "\u0301",
      "🇫🇷",
      " ",
      "<newline>",
      "<left>",
      "<right>",
      "<up>",
      "<down>",
    );
    const more = fc.constantFrom(
      "<home>",
      "<end>",
      "<backspace>",
      "<delete>",
      "<kill-word>",
      "<kill-end>",
      "<word-left>",
      "<word-right>",
      "<kill-start>",
    );
    const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
    fc.assert(fc.property(fc.array(fc.oneof(part, more), { maxLength: 20 }), (parts) => {
      const { text, cursor } = type(new LineEditor(["older\nentry"]), parts.join(""));
      const ends = [...segmenter.segment(text)].map((each) => each.index);
      expect([...ends, text.length]).toContain(cursor);
    }));
  });

  test("word motions and deletions stop between characters where a mark joins a space, a letter or a flag", () => {
    const accent = "\u0301";
    const at = (keys: string) => {
      const { text, cursor } = type(new LineEditor(), keys);
      return [text, cursor];
    };
    expect(at(` ${accent}<word-left>`)).toEqual([` ${accent}`, 0]);
    expect(at(`a ${accent}b<home><word-right>`)).toEqual([`a ${accent}b`, 1]);
    expect(at(` ${accent}<kill-word>`)).toEqual(["", 0]);
    expect(at(`ab${accent}<left><left><delete><backspace>`)).toEqual([`b${accent}`, 0]);
    expect(at(`a\n${accent}<home><backspace>`)).toEqual([`a${accent}`, 2]);
  });

  test("control characters from a paste or the keyboard are shown, not sent to the terminal", () => {
    const editor = new LineEditor();
    editor.handle({ kind: "paste", text: "a\x1b[2J\tb\nc\x7f" });
    editor.handle({ kind: "text", text: "\x9b" });
    expect(editor.text).toBe("a␛[2J\tb\nc␡␡");
  });

  test("a tab stays a tab in the message and takes four cells on the screen", () => {
    const editor = new LineEditor();
    editor.handle({ kind: "paste", text: "if:\n\tx" });
    expect(editor.layout("> ", 40)).toEqual({ lines: ["> if:", "…     x"], row: 1, column: 7 });
    expect(editor.submit()).toBe("if:\n\tx");
  });

  test("what the keys ask for", () => {
    const editor = new LineEditor();
    expect(editor.handle(key("eof"))).toBe("eof");
    expect(editor.handle(key("interrupt"))).toBe("interrupt");
    type(editor, "ab<home>");
    expect(editor.handle(key("eof"))).toBe("changed");
    expect(editor.text).toBe("b");
    type(editor, "<end>\\");
    expect(editor.handle(key("enter"))).toBe("changed");
    expect(editor.text).toBe("b\n");
    expect(editor.handle(key("enter"))).toBe("submit");
    expect([editor.submit(), editor.text]).toEqual(["b\n", ""]);
  });
});

describe("history", () => {
  test("goes back and forth and keeps the draft", () => {
    const editor = type(new LineEditor(["one", "two"]), "draft<up>");
    expect(editor.text).toBe("two");
    expect(type(editor, "<up><up><up>").text).toBe("one");
    expect(type(editor, "<down><down><down>").text).toBe("draft");
  });

  test("has no empty and no repeated entries and a limit", () => {
    const editor = new LineEditor(Array.from({ length: 1500 }, (_, i) => `${i}`));
    for (const text of ["a", "a", "  ", "b"]) type(editor, text).submit();
    expect(editor.history.length).toBe(1000);
    expect(editor.history.slice(-3)).toEqual(["1499", "a", "b"]);
  });
});

describe("layout", () => {
  test("wide characters take two cells and are never split over a line's end", () => {
    const layout = type(new LineEditor(), "abcde你好<left>").layout("> ", 10);
    expect(layout).toEqual({ lines: ["> abcde你", "好"], row: 1, column: 0 });
  });

  test("lines of the text begin under the prompt's end", () => {
    expect(type(new LineEditor(), "ab<newline>cd<up>").layout("> ", 40)).toEqual({
      lines: ["> ab", "… cd"],
      row: 0,
      column: 4,
    });
  });

  test("no row is as wide as the screen, and no character is lost", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("a", "你", "👨‍👩‍👧", "é"), { maxLength: 60 }),
        fc.integer({ min: 9, max: 40 }),
        (parts, columns) => {
          const editor = new LineEditor();
          editor.handle({ kind: "text", text: parts.join("") });
          const { lines, row, column } = editor.layout("> ", columns);
          expect(Math.max(...lines.map((line) => Bun.stringWidth(line)))).toBeLessThan(columns);
          expect(lines.join("")).toBe(`> ${parts.join("")}`);
          expect([row, column]).toEqual([lines.length - 1, Bun.stringWidth(lines.at(-1)!)]);
        },
      ),
    );
  });
});
