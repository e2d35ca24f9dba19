/**
 * A running engine child: its process, its messages, the end of its standard error. Owns the process until it is dead; says once that it is.
 */
import type { ChildMessage, ParentMessage } from "./protocol.ts";

/** Of the child's standard error, this much is kept. */
const STDERR_LIMIT_BYTES = 64 * 1024;
/** A child that was told to end is killed after this time. */
const CLOSE_TIMEOUT_MS = 2000;

export interface Death {
  pid: number;
  /** It was asked to end. */
  wanted: boolean;
  signal: string | null;
  exitCode: number | null;
  /** The last line it wrote to standard error. */
  lastLine: string;
}

export interface ChildHandlers {
  onMessage: (message: ChildMessage) => void;
  onDeath: (death: Death) => void;
}

/** Reads a stream to its end and keeps the last STDERR_LIMIT_BYTES. */
async function keepTail(stream: ReadableStream<Uint8Array>): Promise<string> {
  let tail = Buffer.alloc(0);
  for await (const chunk of stream) {
    tail = Buffer.concat([tail, chunk]);
    if (tail.length > STDERR_LIMIT_BYTES) tail = Buffer.from(tail.subarray(tail.length - STDERR_LIMIT_BYTES));
  }
  return tail.toString("utf8");
}

/** The last line said; of the runtime's crash notes, which end with an invitation to report the crash elsewhere, the cause. */
function lastWords(text: string): string {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return lines.findLast((line) => line.startsWith("panic")) ?? lines.at(-1) ?? "";
}

export class ChildProcess {
  readonly #process: Bun.Subprocess<"ignore", "ignore", "pipe">;
  readonly #stderr: Promise<string>;
  #wanted = false;
  #alive = true;
  readonly #buried: Promise<void>;

  constructor(command: string[], handlers: ChildHandlers) {
    this.#process = Bun.spawn(command, {
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
      serialization: "advanced",
      /* A fault in the C library is ours: the runtime's crash reporter must neither send nor ask for a report. */
      env: { ...process.env, BUN_ENABLE_CRASH_REPORTING: "0" },
      ipc: (message) => this.#alive && handlers.onMessage(message as ChildMessage),
    });
    this.#stderr = keepTail(this.#process.stderr);
    this.#buried = this.#bury(handlers.onDeath);
  }

  get pid(): number {
    return this.#process.pid;
  }

  async #bury(onDeath: ChildHandlers["onDeath"]): Promise<void> {
    const [, stderr] = await Promise.all([this.#process.exited, this.#stderr]);
    this.#alive = false;
    const { pid, signalCode, exitCode } = this.#process;
    onDeath({
      pid,
      wanted: this.#wanted,
      signal: signalCode === null ? null : String(signalCode),
      exitCode,
      lastLine: lastWords(stderr),
    });
  }

  /** False where the child is gone. */
  send(message: ParentMessage): boolean {
    if (!this.#alive || this.#wanted) return false;
    try {
      this.#process.send(message);
      return true;
    } catch {
      return false;
    }
  }

  /** Asks it to end, which it does between two steps; kills it where that takes too long. */
  async close(): Promise<void> {
    this.#wanted = true;
    if (this.#alive) this.#process.disconnect();
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), CLOSE_TIMEOUT_MS);
    await this.#buried;
    clearTimeout(timer);
  }
}
