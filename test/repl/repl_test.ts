/**
 * The chat in a real pseudo-terminal: wide characters, paste, Ctrl-C in an answer, resize, commands, leaving. Breaks when keys are
 * misread, the screen is drawn wrong, or the session does not survive an interruption.
 */
import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const WAIT_MS = 20_000;

class Session {
  readonly folder: string;
  readonly process: Bun.Subprocess;
  screen = "";
  #seen = 0;
  #wake: () => void = () => {};

  /** `folder`: where its history is kept. */
  constructor(command: string[], folder = mkdtempSync(join(tmpdir(), "repl-"))) {
    this.folder = folder;
    this.process = Bun.spawn([process.execPath, ...command], {
      cwd: ROOT,
      env: { PATH: process.env["PATH"] ?? "", TERM: "xterm", XDG_STATE_HOME: this.folder },
      terminal: {
        cols: 60,
        rows: 24,
        data: (_terminal, data) => {
          this.screen += Buffer.from(data).toString("utf8");
          this.#wake();
        },
      },
    });
  }

  /** Without escape sequences; the terminal adds a carriage return of its own to a line's end. */
  get text(): string {
    return Bun.stripANSI(this.screen).replace(/\r+\n/g, "\n");
  }

  /** Waits until the text comes after what was waited for before. */
  async until(text: string): Promise<void> {
    const deadline = Date.now() + WAIT_MS;
    for (;;) {
      const at = this.text.indexOf(text, this.#seen);
      if (at >= 0) {
        this.#seen = at + text.length;
        return;
      }
      const left = deadline - Date.now();
      if (left <= 0) throw new Error(`"${text}" never came; the screen holds: ${this.text.slice(-400)}`);
      await Promise.race([new Promise<void>((resolve) => this.#wake = resolve), Bun.sleep(Math.min(left, 200))]);
    }
  }

  type(text: string): void {
    this.process.terminal!.write(text);
  }

  async leave(): Promise<number> {
    this.type("\x04");
    return await this.process.exited;
  }
}

let session: Session | undefined;

afterEach(() => {
  session?.process.kill("SIGKILL");
  if (session !== undefined) rmSync(session.folder, { recursive: true, force: true });
  session = undefined;
});

async function opened(command: string[]): Promise<Session> {
  session = new Session(command);
  await session.until("> ");
  return session;
}

function started(args: string[] = []): Promise<Session> {
  return opened(["src/main.ts", "chat", "demo", "--temp", "0", "--no-think", ...args]);
}

test("asks, answers, tells the rate, leaves with 0 and gives the terminal back", async () => {
  const chat = await started();
  chat.type("What is the capital of France?\r");
  await chat.until("The capital of France is Paris.");
  await chat.until("tok/s]");
  await chat.until("> ");
  expect(await chat.leave()).toBe(0);
  expect(chat.screen).toContain("\x1b[?2004l");
  const history = join(chat.folder, "surge/history.json");
  expect(readFileSync(history, "utf8")).toContain("capital of France");
  expect(statSync(history).mode & 0o777).toBe(0o600);
});

test("wide characters are edited whole", async () => {
  const chat = await started();
  chat.type("/system 你好世界");
  await chat.until("你好世界");
  chat.type("\x1b[D\x7f\r");
  await chat.until("System prompt set");
  chat.type("/system\r");
  await chat.until("你好界");
});

test("an emoji of several code points goes with one backspace", async () => {
  const chat = await started();
  chat.type("/system a👨‍👩‍👧b\x1b[D\x7f\r");
  await chat.until("System prompt set");
  chat.type("/system\r");
  await chat.until("\nab");
});

test("Ctrl-C in an answer stops it and keeps the session", async () => {
  const chat = await started();
  chat.type("Count from 1 to 200.\r");
  await chat.until("1, 2");
  chat.type("\x03");
  await chat.until("stopped]");
  await chat.until("> ");
  chat.type("What is the capital of Italy?\r");
  await chat.until("Rome");
});

test("a paste of many lines is one message", async () => {
  const chat = await started();
  chat.type("\x1b[200~/system one\rtwo\r\nthree\x1b[201~\r");
  await chat.until("System prompt set");
  chat.type("/system\r");
  await chat.until("one\ntwo\nthree");
});

test("a line that ends in a backslash goes on", async () => {
  const chat = await started();
  chat.type("/system one\\\rtwo\r");
  await chat.until("System prompt set");
  chat.type("/system\r");
  await chat.until("one\ntwo");
});

test("after a resize the line is drawn for the new width", async () => {
  const chat = await started();
  chat.type("a".repeat(50));
  await chat.until("a".repeat(50));
  chat.process.terminal!.resize(30, 24);
  await chat.until(`> ${"a".repeat(27)}\n${"a".repeat(23)}`);
});

test("save, clear, load, regen, set, stats and an unknown command", async () => {
  const chat = await started();
  const file = join(chat.folder, "chat.json");
  chat.type("What is the capital of Spain?\r");
  await chat.until("Madrid");
  await chat.until("> ");
  chat.type(`/save ${file}\r`);
  await chat.until("Saved 2 messages");
  expect(existsSync(file)).toBe(true);
  chat.type("/clear\r");
  await chat.until("forgotten");
  chat.type("/regen\r");
  await chat.until("no message to answer");
  chat.type(`/load ${file}\r`);
  await chat.until("Loaded 2 messages");
  chat.type("/regen\r");
  await chat.until("Madrid");
  await chat.until("> ");
  chat.type("/set temperature 0.5\r");
  await chat.until("temperature = 0.5");
  chat.type("/set temperature hot\r");
  await chat.until("takes a number");
  chat.type("/stats\r");
  await chat.until("context");
  chat.type("/nonsense\r");
  await chat.until("no command /nonsense");
  chat.type("/exit\r");
  expect(await chat.process.exited).toBe(0);
});

test("a text taller than the screen is drawn around the cursor and sent whole", async () => {
  const chat = await started();
  const lines = Array.from({ length: 40 }, (_, i) => `line${i}`);
  chat.type(`\x1b[200~/system ${lines.join("\n")}\x1b[201~`);
  await chat.until("line39");
  expect(chat.text).not.toContain("line0\n");
  chat.type("\r");
  await chat.until("System prompt set");
  chat.type("/system\r");
  await chat.until(lines.join("\n"));
});

test("what was typed behind /exit is not sent", async () => {
  const chat = await started();
  chat.type("What is the capital of France?\r/exit\rWhat is the capital of Italy?\r");
  expect(await chat.process.exited).toBe(0);
  expect(chat.text).toContain("Paris");
  expect(chat.text).not.toContain("Rome");
});

test("answering again takes another seed", async () => {
  const chat = await started(["--seed", "7"]);
  chat.type("What is the capital of Spain?\r");
  await chat.until("tok/s]");
  chat.type("/regen\r");
  await chat.until("tok/s]");
  chat.type("/stats\r");
  await chat.until("seed     8");
});

test("a signal to end gives the terminal back", async () => {
  const chat = await started();
  chat.process.kill("SIGTERM");
  expect(await chat.process.exited).toBe(0);
  expect(chat.screen).toContain("\x1b[?2004l");
});

test("thinking is shown and kept apart", async () => {
  const chat = await started();
  chat.type("/think\r");
  await chat.until("thinks");
  chat.type("What is the internet domain of Colombia?\r");
  await chat.until("Its domain is .co.");
  await chat.until("The domain of Colombia is .co.");
  expect(chat.screen).toContain("\x1b[2mThe");
});

const HOSTILE = "A\x1b]0;owned\x07B\x1b[2JC\x9b31mD\rE";

test("no control character of a model reaches the terminal", async () => {
  const chat = await opened(["test/repl/scripted_chat.ts", "chat", `${HOSTILE}</think>${HOSTILE}`]);
  expect(chat.screen).toContain("demo␛[5m: /help");
  chat.type("Hi\r");
  await chat.until("A␛]0;owned␇B␛[2JC␡31mD␍E\n\nA␛]0;owned␇B␛[2JC␡31mD␍E");
  await chat.until("tok/s]");
  expect(chat.screen).not.toContain("\x1b]");
  expect(await chat.leave()).toBe(0);
});

test("one answer on a terminal is as safe", async () => {
  session = new Session(["test/repl/scripted_chat.ts", "run", `x</think>${HOSTILE}`]);
  expect(await session.process.exited).toBe(0);
  expect(session.screen).toBe("A␛]0;owned␇B␛[2JC␡31mD␍E\r\n");
});

test("an interrupt sent from outside is a Ctrl-C: a hint, then the session goes on", async () => {
  const chat = await started();
  chat.process.kill("SIGINT");
  await chat.until("Ctrl-D leaves.\n");
  await chat.until("> ");
  expect(await chat.leave()).toBe(0);
});

test("Ctrl-C at a prompt with text drops the text", async () => {
  const chat = await started();
  chat.type("/exit\x03");
  await chat.until("> /exit\n");
  await chat.until("> ");
  chat.type("/stats\r");
  await chat.until("There is no answer yet.");
});

test("when the engine dies the message is taken back and the next one starts it again", async () => {
  const chat = await started();
  chat.type("Count from 1 to 200.\r");
  await chat.until("1, 2");
  const children = readFileSync(`/proc/${chat.process.pid}/task/${chat.process.pid}/children`, "utf8");
  process.kill(Number(children), "SIGKILL");
  await chat.until("The engine");
  await chat.until("> ");
  chat.type("What is the capital of Italy?\r");
  await chat.until("Rome");
  await chat.until("tok/s]");
  chat.type("/stats\r");
  await chat.until("prompt");
  await chat.until("0 of them kept");
});

test("Alt-Enter and Ctrl-J go on in the next line", async () => {
  const chat = await started();
  chat.type("/system one\x1b\rtwo\nthree\r");
  await chat.until("System prompt set");
  chat.type("/system\r");
  await chat.until("\none\ntwo\nthree\n");
});

test("the history of one session is there in the next", async () => {
  const chat = await started();
  chat.type("/set seed 41\r");
  await chat.until("seed = 41");
  await chat.leave();
  const { folder } = chat;
  const next = new Session(["src/main.ts", "chat", "demo"], folder);
  session = next;
  await next.until("> ");
  next.type("\x1b[A\x7f2\r");
  await next.until("seed = 42");
});

test("a terminal that goes away ends the chat, and the history is kept", async () => {
  const chat = await started();
  chat.type("Count from 1 to 200.\r");
  await chat.until("1, 2");
  chat.process.terminal!.close();
  await chat.process.exited;
  expect(readFileSync(join(chat.folder, "surge/history.json"), "utf8")).toBe('["Count from 1 to 200."]');
});

test("a failure that nobody waits for is one line, 70, and gives the terminal back", async () => {
  const stray = `
    process.argv = ["", "", "chat", "demo"];
    process.on("SIGUSR2", () => { throw new Error("a stray\\x1b failure"); });
    await import("${ROOT}/src/main.ts");`;
  const chat = await opened(["-e", stray]);
  chat.process.kill("SIGUSR2");
  expect(await chat.process.exited).toBe(70);
  await chat.until("surge: a stray  failure\n");
  expect(chat.text.split("failure\n")[1]).toBe("");
  expect(chat.screen).toContain("\x1b[?2004l");
});
