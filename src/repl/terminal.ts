/**
 * The terminal in raw mode: keys in, editor drawn, text written. It restores the terminal on every way out that JavaScript can see.
 * Invariant: between draw() and erase() it knows how many rows the editor takes.
 */
import { type Key, KeyDecoder } from "./keys.ts";
import type { Layout } from "./line_editor.ts";

const PASTE_ON = "\x1b[?2004h";
const PASTE_OFF = "\x1b[?2004l";
const END_SIGNALS = ["SIGTERM", "SIGHUP"] as const;

export class Terminal {
  readonly #decoder = new KeyDecoder();
  readonly #onKey: (key: Key) => void;
  readonly #onEnd: () => void;
  #cursorRow = 0;
  #drawn = false;

  constructor(handlers: { onKey: (key: Key) => void; onResize: () => void; onEnd: () => void }) {
    this.#onKey = handlers.onKey;
    this.#onEnd = handlers.onEnd;
    process.stdin.setRawMode(true);
    process.stdin.resume();
    process.stdin.on("data", this.#receive);
    process.stdin.on("end", this.#onEnd);
    process.stdout.on("resize", handlers.onResize);
    process.on("exit", this.#restore);
    for (const signal of END_SIGNALS) process.on(signal, this.#onEnd);
    process.on("SIGINT", this.#interrupt);
    process.stdout.write(PASTE_ON);
  }

  readonly #receive = (bytes: Uint8Array): void => {
    for (const key of this.#decoder.push(bytes)) this.#onKey(key);
  };

  /** Sent by somebody else: in raw mode Ctrl-C is a byte. */
  readonly #interrupt = (): void => this.#onKey({ kind: "key", name: "interrupt" });

  readonly #restore = (): void => {
    try {
      process.stdout.write(`\x1b[0m${PASTE_OFF}`);
      process.stdin.setRawMode(false);
    } catch {
      /* The terminal is gone (its window was closed): there is nothing to give back. */
    }
  };

  get columns(): number {
    return process.stdout.columns || 80;
  }

  /** Writes text; line breaks become carriage return and line feed. */
  write(text: string): void {
    process.stdout.write(text.replace(/\r?\n/g, "\r\n"));
  }

  /** Draws the editor; of a text taller than the screen the rows around the cursor. */
  draw(layout: Layout): void {
    const height = Math.max(2, process.stdout.rows || 24);
    const first = Math.max(0, layout.row - height + 1);
    this.#paint({ ...layout, lines: layout.lines.slice(first, first + height), row: layout.row - first });
  }

  #paint(layout: Layout): void {
    const up = layout.lines.length - 1 - layout.row;
    const back = `${up > 0 ? `\x1b[${up}A` : ""}\r${layout.column > 0 ? `\x1b[${layout.column}C` : ""}`;
    process.stdout.write(`${this.#home()}\x1b[J${layout.lines.join("\r\n")}${back}`);
    this.#cursorRow = layout.row;
    this.#drawn = true;
  }

  /** The editor's text stays on the screen; writing goes on below it. */
  leave(layout: Layout): void {
    this.#paint({ ...layout, row: layout.lines.length - 1 });
    process.stdout.write("\r\n");
    this.#drawn = false;
    this.#cursorRow = 0;
  }

  #home(): string {
    return this.#drawn ? `${this.#cursorRow > 0 ? `\x1b[${this.#cursorRow}A` : ""}\r` : "\r";
  }

  close(): void {
    this.#restore();
    process.off("exit", this.#restore);
    for (const signal of END_SIGNALS) process.off(signal, this.#onEnd);
    process.off("SIGINT", this.#interrupt);
    process.stdin.off("data", this.#receive);
    process.stdin.off("end", this.#onEnd);
    process.stdin.pause();
  }
}
