/**
 * Bytes of a terminal in raw mode to keys. A bracketed paste is one key with its whole text. Pure: no terminal here.
 * Source of the sequences: ECMA-48 and xterm's control sequences.
 */
export type Key = { kind: "text"; text: string } | { kind: "paste"; text: string } | { kind: "key"; name: KeyName };

export type KeyName =
  | "enter"
  | "newline"
  | "backspace"
  | "delete"
  | "left"
  | "right"
  | "up"
  | "down"
  | "home"
  | "end"
  | "word-left"
  | "word-right"
  | "kill-word"
  | "kill-start"
  | "kill-end"
  | "interrupt"
  | "eof"
  | "redraw";

const CONTROLS: Record<string, KeyName> = {
  "\r": "enter",
  "\n": "newline",
  "\x7f": "backspace",
  "\b": "backspace",
  "\x01": "home",
  "\x02": "left",
  "\x03": "interrupt",
  "\x04": "eof",
  "\x05": "end",
  "\x06": "right",
  "\x0b": "kill-end",
  "\x0c": "redraw",
  "\x0e": "down",
  "\x10": "up",
  "\x15": "kill-start",
  "\x17": "kill-word",
};

const SEQUENCES: Record<string, KeyName> = {
  "[A": "up",
  "[B": "down",
  "[C": "right",
  "[D": "left",
  "OA": "up",
  "OB": "down",
  "OC": "right",
  "OD": "left",
  "[H": "home",
  "[F": "end",
  "OH": "home",
  "OF": "end",
  "[1~": "home",
  "[4~": "end",
  "[7~": "home",
  "[8~": "end",
  "[3~": "delete",
  "[1;5D": "word-left",
  "[1;5C": "word-right",
  "[1;3D": "word-left",
  "[1;3C": "word-right",
};

const ALT: Record<string, KeyName> = {
  "\r": "newline",
  "\n": "newline",
  b: "word-left",
  f: "word-right",
  "\x7f": "kill-word",
};

const PASTE_BEGIN = "\x1b[200~";
const PASTE_END = "\x1b[201~";
/** As much of an end as may stand at the end of a read. */
const PASTE_TAIL = PASTE_END.length - 1;
/** A paste longer than this is cut: it would not fit a context. */
const PASTE_LIMIT = 4 * 1024 * 1024;

export class KeyDecoder {
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  #text = "";
  /** A paste was longer than its limit: everything up to its end is dropped, or its line ends would send messages. */
  #skipping = false;

  /** Keys that are complete after these bytes. */
  push(bytes: Uint8Array): Key[] {
    this.#text += this.#utf8.decode(bytes, { stream: true });
    const keys: Key[] = [];
    for (let key = this.#next(); key !== undefined; key = this.#next()) if (key !== null) keys.push(key);
    return keys;
  }

  /** undefined: nothing complete; null: a sequence that means nothing here. */
  #next(): Key | null | undefined {
    const text = this.#text;
    if (text === "") return undefined;
    if (this.#skipping) return this.#skip();
    if (text.startsWith(PASTE_BEGIN)) return this.#paste();
    if (text[0] === "\x1b") return this.#escape();
    const control = CONTROLS[text[0]!];
    if (control !== undefined || text[0]! < " ") {
      this.#text = text.slice(1);
      return control === undefined ? null : { kind: "key", name: control };
    }
    // deno-lint-ignore no-control-regex
    const plain = /^[^\x00-\x1f\x7f]+/.exec(text)![0];
    this.#text = text.slice(plain.length);
    return { kind: "text", text: plain };
  }

  #paste(): Key | undefined {
    const end = this.#text.indexOf(PASTE_END);
    if (end < 0 && this.#text.length < PASTE_LIMIT) return undefined;
    this.#skipping = end < 0;
    const cut = end < 0 ? this.#text.length - PASTE_TAIL : end;
    const pasted = this.#text.slice(PASTE_BEGIN.length, cut);
    this.#text = this.#text.slice(end < 0 ? cut : cut + PASTE_END.length);
    return { kind: "paste", text: pasted.replace(/\r\n?/g, "\n") };
  }

  #skip(): null | undefined {
    const end = this.#text.indexOf(PASTE_END);
    this.#skipping = end < 0;
    this.#text = this.#text.slice(end < 0 ? -PASTE_TAIL : end + PASTE_END.length);
    return end < 0 ? undefined : null;
  }

  #escape(): Key | null | undefined {
    // deno-lint-ignore no-control-regex
    const sequence = /^\x1b(\[[0-?]*[ -/]*[@-~]|O[@-~])/.exec(this.#text);
    if (sequence !== null) {
      this.#text = this.#text.slice(sequence[0].length);
      const name = SEQUENCES[sequence[1]!];
      return name === undefined ? null : { kind: "key", name };
    }
    /* A read may end anywhere in a sequence, also right behind its ESC. */
    if (/^.(\[[0-?]*[ -/]*|O)?$/.test(this.#text) && this.#text.length < 32) return undefined;
    const alt = ALT[this.#text[1] ?? ""];
    this.#text = this.#text.slice(alt === undefined ? 1 : 2);
    return alt === undefined ? null : { kind: "key", name: alt };
  }
}
