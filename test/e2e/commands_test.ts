/** Every command as a person runs it: what goes to which stream, and the exit code that scripts rely on. */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readMachine } from "../../src/plan/machine.ts";

const ROOT = join(import.meta.dir, "../..");

interface Ran {
  code: number;
  out: string;
  err: string;
}

/** `lockLimitBytes`: without the privilege that lifts it. */
function surge(args: string[], options: { input?: string; lockLimitBytes?: number } = {}): Ran {
  const limit = `--memlock=${options.lockLimitBytes}:${options.lockLimitBytes}`;
  const unprivileged = process.getuid?.() === 0 ? ["setpriv", "--bounding-set", "-ipc_lock"] : [];
  const limited = options.lockLimitBytes === undefined ? [] : ["prlimit", limit, ...unprivileged];
  const ran = Bun.spawnSync([...limited, process.execPath, "src/main.ts", ...args], {
    cwd: ROOT,
    stdin: Buffer.from(options.input ?? ""),
  });
  return { code: ran.exitCode, out: ran.stdout.toString(), err: ran.stderr.toString() };
}

function inFolder(use: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), "commands-"));
  try {
    use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const QUESTION = "What is the capital of France?";
const ANSWER = "The capital of France is Paris.\n";
const PLAIN = ["--temp", "0", "--no-think"];

describe("run", () => {
  test("the answer alone is on standard output", () => {
    expect(surge(["run", "demo", QUESTION, ...PLAIN])).toEqual({ code: 0, out: ANSWER, err: "" });
  });

  test("guessing ahead changes no answer; a model without a prediction layer says so", () => {
    for (const draft of ["mtp", "lookup", "none"]) {
      const ran = surge(["run", "demo", QUESTION, ...PLAIN, "--draft", draft, "--draft-tokens", "3"]);
      expect(ran).toEqual({ code: 0, out: ANSWER, err: "" });
    }
    const { code, err } = surge(["run", "test/golden/models/q35-r2/hf", QUESTION, "--draft", "mtp"]);
    expect(code).toBe(64);
    expect(err).toContain("has no prediction layer to draft with; --draft lookup needs none.");
  });

  test("pinned threads change no answer; CPUs that cannot be had are refused", () => {
    const [cpu] = readMachine().cpus;
    expect(surge(["run", "demo", QUESTION, ...PLAIN, "--cpus", `${cpu}`])).toEqual({ code: 0, out: ANSWER, err: "" });
    const foreign = surge(["run", "demo", QUESTION, "--cpus", `${cpu},8191`]);
    expect(foreign.code).toBe(78);
    expect(foreign.err).toContain("The plan pins a thread to CPU 8191 and this process may run on CPU ");
    const wrong = surge(["run", "demo", QUESTION, "--cpus", "all"]);
    expect(wrong.code).toBe(64);
    expect(wrong.err).toContain('--cpus takes CPU numbers such as 0,1 or 0-3,8, not "all".');
  });

  test("memory is locked on request, and where the limit forbids it that is said", () => {
    const locked = surge(["run", "demo", QUESTION, ...PLAIN, "--mlock"]);
    if (locked.code === 0) expect(locked).toEqual({ code: 0, out: ANSWER, err: "" });
    else expect(locked.err).toContain("RLIMIT_MEMLOCK"); /* a machine that lets nobody lock */
    const { code, out, err } = surge(["run", "demo", QUESTION, "--mlock"], { lockLimitBytes: 65536 });
    expect({ code, out }).toEqual({ code: 71, out: "" });
    expect(err).toMatch(
      /^surge: \d+ MiB must be locked into memory \(mlock\) and this process may lock 64 KiB .*leave mlock out\.\n$/,
    );
  });

  test("thinking does not reach standard output", () => {
    expect(surge(["run", "demo", QUESTION, "--temp", "0", "--think"]).out).toBe(ANSWER);
  });

  test("standard input is the prompt, or comes before it", () => {
    expect(surge(["run", "demo", ...PLAIN], { input: QUESTION }).out).toBe(ANSWER);
    expect(surge(["run", "-m", "demo", ...PLAIN], { input: QUESTION }).out).toBe(ANSWER);
    expect(surge(["run", "demo", "Which one?", ...PLAIN], { input: QUESTION }).code).toBe(0);
  });

  test("chat without a terminal answers standard input", () => {
    expect(surge(["chat", ...PLAIN], { input: QUESTION })).toEqual({ code: 0, out: ANSWER, err: "" });
  });

  test("the same seed gives the same text", () => {
    const ask = (seed: string) =>
      surge(["run", "demo", "Hello!", "--temp", "1.5", "--top-p", "1", "--top-k", "0", "--seed", seed]).out;
    expect(ask("11")).toBe(ask("11"));
  });

  test("an answer that is cut off says so on standard error", () => {
    const ran = surge(["run", "demo", QUESTION, ...PLAIN, "-n", "2"]);
    expect(ran.code).toBe(0);
    expect(ran.out).toBe("The capital\n");
    expect(ran.err).toContain("cut off");
  });

  test("a stop string ends the answer and is not shown", () => {
    expect(surge(["run", "demo", QUESTION, ...PLAIN, "--stop", " is"]).out).toBe("The capital of France\n");
  });

  test("a prompt longer than the context is refused with both counts", () => {
    const ran = surge(["run", "demo", QUESTION, ...PLAIN, "-c", "8"]);
    expect(ran.code).toBe(64);
    expect(ran.out).toBe("");
    expect(ran.err).toMatch(/^surge: .*\d+ tokens.* 8\b.*\.\n$/);
  });

  test("a context that fills up ends the answer there", () => {
    const ran = surge(["run", "demo", "Count from 1 to 200.", ...PLAIN, "-c", "64"]);
    expect(ran.out).toMatch(/^1, 2[^.]*\n$/);
    expect([ran.code, ran.err]).toEqual([0, "surge: the answer was cut off at its greatest length.\n"]);
  });

  test.each([
    ['run demo "Count from 1 to 200." --temp 0 --no-think', "1"],
    ["info demo --json", "{"],
  ])("a reader that leaves early is no failure: %s", (words, first) => {
    const script = `{ "$0" src/main.ts ${words} </dev/null; echo $? >&2; } | head -c1`;
    const ran = Bun.spawnSync(["sh", "-c", script, process.execPath], { cwd: ROOT });
    expect([ran.stdout.toString(), ran.stderr.toString()]).toEqual([first, "0\n"]);
  });

  test("an output that is full is an error", () => {
    const script = `"$0" src/main.ts "$@" </dev/null >/dev/full`;
    for (const words of [["version"], ["info", "demo"], ["run", "demo", QUESTION, ...PLAIN]]) {
      const ran = Bun.spawnSync(["sh", "-c", script, process.execPath, ...words], { cwd: ROOT });
      expect(ran.stderr.toString()).toMatch(/^surge: Standard output cannot be written: ENOSPC[^\n]*\n$/);
      expect(ran.exitCode).toBe(66);
    }
  });

  test("what is piped in keeps its own indentation", () => {
    const ran = surge(["tokenize", "demo", "--json"], { input: "  a\n" });
    expect((JSON.parse(ran.out) as Array<{ text: string }>).map((row) => row.text).join("")).toBe("  a\n");
  });

  test("an interrupt ends with 130", async () => {
    const child = Bun.spawn([process.execPath, "src/main.ts", "run", "demo", "Count from 1 to 200.", ...PLAIN], {
      cwd: ROOT,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const reader = child.stdout.getReader();
    await reader.read();
    child.kill("SIGINT");
    for (let next = await reader.read(); !next.done; next = await reader.read());
    expect(await child.exited).toBe(130);
  });
});

describe("mistakes are one sentence and a code", () => {
  test.each<[string, string[], number, RegExp]>([
    ["no such command", ["rnu"], 64, /Did you mean run\?/],
    ["no such flag", ["run", "demo", "x", "--temprature", "1"], 64, /Did you mean --temperature\?/],
    ["a value out of range", ["run", "demo", "x", "--top-p", "2"], 64, /--top-p takes a number from/],
    ["a value that is no number", ["run", "demo", "x", "-t", "many"], 64, /--threads takes a whole number/],
    ["a flag without a value", ["run", "demo", "x", "--stop", "--think"], 64, /--stop needs a value/],
    ["an unknown precision", ["run", "demo", "x", "--kv", "f8"], 64, /--kv takes f16 or f32/],
    ["a number that C cannot hold", ["run", "demo", "x", "--top-k", "99999999999"], 64, /--top-k takes a whole number/],
    ["an argument too many", ["chat", "demo", "hello"], 64, /"hello" is one argument too many/],
    ["an argument beside -m", ["info", "-m", "demo", "demo"], 64, /"demo" is one argument too many/],
    ["an argument for version", ["version", "x"], 64, /"x" is one argument too many/],
    ["no model", ["run"], 64, /needs a model/],
    ["chat without terminal and text", ["chat"], 64, /needs a terminal/],
    ["logits without tokens", ["logits", "demo", "-o", "/dev/null"], 64, /surge logits MODEL --tokens/],
    ["token ids from nowhere", ["logits", "demo", "--tokens", "nowhere.txt", "-o", "/dev/null"], 66, /nowhere\.txt/],
    ["help for no command", ["help", "runn"], 64, /Did you mean run\?/],
    ["no prompt", ["run", "demo"], 64, /needs a prompt/],
    ["no such file", ["run", "nowhere.gguf", "x"], 66, /nowhere\.gguf is not there/],
    ["not a model", ["run", "README.md", "x"], 65, /README\.md is not a GGUF file/],
    ["a context beyond the model's", ["run", "demo", "x", "-c", "5000"], 64, /5000.*4096/],
    [
      "a token id beyond the vocabulary",
      ["logits", "demo", "--tokens", "1,4096", "-o", "/dev/null"],
      65,
      /"4096" is not a token id below 4096/,
    ],
    ["an output that cannot be written", ["logits", "demo", "--tokens", "1", "-o", "/nowhere/x.f32"], 66, /nowhere/],
  ])("%s", (_what, args, code, message) => {
    const ran = surge(args);
    expect(ran.err).toMatch(message);
    expect(ran.err).toMatch(/^surge: [^\n]+\n$/);
    expect([ran.code, ran.out]).toEqual([code, ""]);
  });
});

describe("the other commands", () => {
  test("logits writes rows of the vocabulary; the last row is what one row alone is", () =>
    inFolder((folder) => {
      const [one, all] = [join(folder, "one.f32"), join(folder, "all.f32")];
      const ids = join(folder, "ids.txt");
      writeFileSync(ids, "5 6\n7,8");
      expect(surge(["logits", "demo", "--tokens", "5,6,7,8", "-o", one]).code).toBe(0);
      expect(surge(["logits", "demo", "--tokens", ids, "-o", all, "--all"]).code).toBe(0);
      const rows = readFileSync(all);
      expect(rows.length).toBe(4 * 4096 * 4);
      expect(rows.subarray(3 * 4096 * 4).equals(readFileSync(one))).toBe(true);
    }));

  test("tokenize: table, ids, json, standard input, special tokens", () => {
    expect(surge(["tokenize", "demo", "hello", "--ids"]).out).toMatch(/^[\d,]+\n$/);
    expect(surge(["tokenize", "demo", "世"]).out).toContain("\\xE4");
    const rows = JSON.parse(surge(["tokenize", "demo", "--json"], { input: "hello world" }).out) as Array<
      { text: string }
    >;
    expect(rows.map((row) => row.text).join("")).toBe("hello world");
    expect(surge(["tokenize", "demo", "<|im_end|>", "--ids", "--special"]).out).toBe("4089\n");
    expect(surge(["tokenize", "demo", "<|im_end|>", "--ids"]).out).not.toBe("4089\n");
  });

  test("bench --json says what was got", () => {
    const { code, out } = surge([
      "bench",
      "demo",
      "--json",
      "--tokens",
      "2",
      "--repeats",
      "1",
      "--prefill",
      "64",
      "--threads",
      "1",
    ]);
    expect(code).toBe(0);
    const { pages } = JSON.parse(out);
    expect(pages.weights.mapped_bytes).toBeGreaterThan(1e6);
    expect(pages.weights.resident_bytes).toBeLessThanOrEqual(pages.weights.mapped_bytes);
    expect(pages.arena).toContainAllKeys([
      "mapped_bytes",
      "resident_bytes",
      "anon_huge_bytes",
      "file_huge_bytes",
      "locked_bytes",
    ]);
    expect(pages).toMatchObject({ cpus: readMachine().cpus });
  });

  test("info --json", () => {
    const facts = JSON.parse(surge(["info", "demo", "--json"]).out) as {
      model: Record<string, unknown>;
      machine: Record<string, unknown>;
    };
    expect(facts.model).toMatchObject({
      family: "qwen35moe",
      parameters: 16547416,
      context: 4096,
      prediction_parameters: 3741312,
      ignored_tensors: { mtp: 0 },
    });
    expect(facts.machine["cores"]).toBeGreaterThan(0);
  });

  test("version, notices, help", () => {
    expect(surge(["version"]).out).toMatch(/^surge \d+\.\d+\.\d+\n$/);
    expect(surge(["version", "--licenses"]).out).toContain("The ggml authors");
    expect(surge(["help", "run"]).out).toContain("--temperature, --temp X");
    expect(surge(["logits", "--help"]).out).toContain("usage: surge logits");
    expect(surge(["help", "help"]).out).toContain("usage: surge COMMAND");
    expect(surge([]).out).toContain("usage: surge COMMAND");
  });
});

test("a warm start reaches its first word within three seconds", async () => {
  const startMs = performance.now();
  const child = Bun.spawn([process.execPath, "src/main.ts", "run", "demo", QUESTION, ...PLAIN], {
    cwd: ROOT,
    stdin: "ignore",
    stdout: "pipe",
  });
  const { value } = await child.stdout.getReader().read();
  expect(performance.now() - startMs).toBeLessThan(3000);
  expect(value!.length).toBeGreaterThan(0);
  child.kill();
  await child.exited;
});
