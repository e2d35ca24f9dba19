/**
 * The text being typed: cursor, editing by grapheme, history, and where everything stands on a screen of a given width. Pure state;
 * drawing is terminal.ts's. Invariant: the cursor stands between graphemes.
 */
import { printable } from "../base/printable.ts";
import type { Key, KeyName } from "./keys.ts";

export type EditorEvent = "changed" | "submit" | "interrupt" | "eof" | "none";

const SEGMENTER = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const HISTORY_MAX = 1000;
/** Tabs are kept in the text and drawn as spaces, so that their width does not depend on the column. */
const TAB = "    ";

export interface Layout {
  /** What to write; lines are broken where the screen's would be. */
  lines: string[];
  /** Where the cursor stands in them. */
  row: number;
  column: number;
}

export class LineEditor {
  text = "";
  cursor = 0;
  readonly #history: string[];
  #historyAt: number;
  #draft = "";

  constructor(history: string[] = []) {
    this.#history = history.slice(-HISTORY_MAX);
    this.#historyAt = this.#history.length;
  }

  get history(): readonly string[] {
    return this.#history;
  }

  /** Takes the text and starts a new one; it goes into the history. */
  submit(): string {
    const text = this.text;
    if (text.trim() !== "" && this.#history.at(-1) !== text) this.#history.push(text);
    if (this.#history.length > HISTORY_MAX) this.#history.shift();
    this.#replace("");
    this.#historyAt = this.#history.length;
    return text;
  }

  clear(): void {
    this.#replace("");
  }

  handle(key: Key): EditorEvent {
    if (key.kind !== "key") {
      this.#insert(printable(key.text));
      return "changed";
    }
    switch (key.name) {
      case "enter":
        return this.#enter();
      case "interrupt":
        return "interrupt";
      case "eof":
        if (this.text === "") return "eof";
        return this.#edit("delete");
      default:
        return this.#edit(key.name);
    }
  }

  /** A backslash at the end asks for another line. */
  #enter(): EditorEvent {
    if (!this.text.endsWith("\\") || this.cursor !== this.text.length) return "submit";
    this.text = `${this.text.slice(0, -1)}\n`;
    this.cursor = this.text.length;
    return "changed";
  }

  #edit(name: KeyName): EditorEvent {
    switch (name) {
      case "newline":
        this.#insert("\n");
        break;
      case "left":
        this.cursor = this.#before(this.cursor);
        break;
      case "right":
        this.cursor = this.#after(this.cursor);
        break;
      case "home":
        this.cursor = this.text.lastIndexOf("\n", this.cursor - 1) + 1;
        break;
      case "end":
        this.cursor = this.#lineEnd();
        break;
      case "word-left":
        this.cursor = this.#wordStart();
        break;
      case "word-right":
        this.cursor = this.#notBefore(this.cursor + /^\s*\S*/.exec(this.text.slice(this.cursor))![0].length);
        break;
      case "up":
      case "down":
        this.#vertical(name === "up" ? -1 : 1);
        break;
      default:
        this.#remove(name);
    }
    return "changed";
  }

  #remove(name: KeyName): void {
    const ranges: Partial<Record<KeyName, [number, number]>> = {
      backspace: [this.#before(this.cursor), this.cursor],
      delete: [this.cursor, this.#after(this.cursor)],
      "kill-word": [this.#wordStart(), this.cursor],
      "kill-start": [this.text.lastIndexOf("\n", this.cursor - 1) + 1, this.cursor],
      "kill-end": [this.cursor, this.#lineEnd()],
    };
    const range = ranges[name];
    if (range === undefined) return;
    this.text = this.text.slice(0, range[0]) + this.text.slice(range[1]);
    /* What stood on both sides may have joined to one grapheme. */
    this.cursor = this.#notBefore(range[0]);
  }

  #insert(text: string): void {
    this.text = this.text.slice(0, this.cursor) + text + this.text.slice(this.cursor);
    /* What was typed may have joined the grapheme after it. */
    this.cursor = this.#notBefore(this.cursor + text.length);
  }

  #boundaries(): number[] {
    return [...[...SEGMENTER.segment(this.text)].map((segment) => segment.index), this.text.length];
  }

  #before(at: number): number {
    return this.#boundaries().findLast((boundary) => boundary < at) ?? 0;
  }

  #after(at: number): number {
    return this.#boundaries().find((boundary) => boundary > at) ?? this.text.length;
  }

  /** The first boundary at `at` or after it. */
  #notBefore(at: number): number {
    return this.#boundaries().find((boundary) => boundary >= at) ?? this.text.length;
  }

  /** The last boundary at `at` or before it. */
  #notAfter(at: number): number {
    return this.#boundaries().findLast((boundary) => boundary <= at) ?? 0;
  }

  #lineEnd(): number {
    const end = this.text.indexOf("\n", this.cursor);
    return end < 0 ? this.text.length : end;
  }

  #wordStart(): number {
    return this.#notAfter(this.cursor - /\S*\s*$/.exec(this.text.slice(0, this.cursor))![0].length);
  }

  /** To the line above or below; from the first and last line into the history. */
  #vertical(step: -1 | 1): void {
    const before = this.text.slice(0, this.cursor).split("\n");
    const lines = this.text.split("\n");
    const target = before.length - 1 + step;
    if (target < 0 || target >= lines.length) return this.#recall(step);
    const start = lines.slice(0, target).reduce((sum, line) => sum + line.length + 1, 0);
    const column = Math.min(before.at(-1)!.length, lines[target]!.length);
    this.cursor = this.#notAfter(start + column);
  }

  #recall(step: -1 | 1): void {
    const at = this.#historyAt + step;
    if (at < 0 || at > this.#history.length) return;
    if (this.#historyAt === this.#history.length) this.#draft = this.text;
    this.#historyAt = at;
    this.#replace(at === this.#history.length ? this.#draft : this.#history[at]!);
  }

  #replace(text: string): void {
    this.text = text;
    this.cursor = text.length;
  }

  /** Rows of at most columns - 1 cells, so that no terminal wraps by itself. */
  layout(prompt: string, columns: number): Layout {
    const width = Math.max(8, columns - 1);
    const more = "… ".padStart(Bun.stringWidth(prompt));
    const lines = [prompt];
    let used = Bun.stringWidth(prompt);
    let cursor = { row: 0, column: used };
    const breakLine = (start: string) => {
      lines.push(start);
      used = Bun.stringWidth(start);
    };
    for (const { segment, index } of SEGMENTER.segment(this.text)) {
      const shown = segment === "\t" ? TAB : segment;
      const cells = segment === "\n" ? 0 : Bun.stringWidth(shown);
      if (segment !== "\n" && used + cells > width) breakLine("");
      if (index === this.cursor) cursor = { row: lines.length - 1, column: used };
      if (segment === "\n") breakLine(more);
      else {
        lines[lines.length - 1] += shown;
        used += cells;
      }
    }
    if (this.cursor === this.text.length) cursor = { row: lines.length - 1, column: used };
    return { lines, ...cursor };
  }
}
