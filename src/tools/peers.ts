/**
 * Other engines on the same model, machine and threads, for `surge bench --vs`: llama.cpp from its npm package and ik_llama.cpp built by
 * scripts/build_ik_llama.sh. Both belong to the development tree; an installed surge says that they are missing.
 */
import { existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { SurgeError } from "../base/errors.ts";
import type { PEERS } from "./bench_report.ts";

export type Peer = typeof PEERS[number];

export interface PeerRun {
  model: string;
  threads: number;
  phase: "decode" | "prefill";
  tokens: number;
  repeats: number;
}

/** Far beyond the slowest honest run. */
const TIMEOUT_MS = 600_000;
const LLAMA_LIBRARIES = "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64";

function execute(command: string[]): string {
  const { stdout, stderr, exitCode, signalCode } = Bun.spawnSync(command, { timeout: TIMEOUT_MS, stdin: "ignore" });
  if (exitCode === 0) return stdout.toString();
  const last = stderr.toString().trim().split("\n").at(-1) ?? "";
  throw new SurgeError("unavailable", `${command[0]} failed (${signalCode ?? exitCode}): ${last}`);
}

/** llama.cpp brings no program, only libraries: ours drives them. */
function buildLlamaPeer(): string {
  const program = join("build", "llama_peer");
  const source = join("test", "bench", "llama_peer.c");
  if (!existsSync(source) || !existsSync(LLAMA_LIBRARIES)) {
    throw new SurgeError("missing", "llama.cpp is compared with in the development tree only, after make setup.");
  }
  mkdirSync("build", { recursive: true });
  execute(["cc", "-O2", "-D_GNU_SOURCE", "-o", program, source, "-ldl"]);
  return program;
}

function runLlama({ model, threads, phase, tokens, repeats }: PeerRun): number[] {
  const words = [LLAMA_LIBRARIES, model, threads, phase, tokens, repeats].map(String);
  return execute([buildLlamaPeer(), ...words]).trim().split("\n").map(Number);
}

function ikBench(): string {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const path = process.env["SURGE_IK_LLAMA_BENCH"] ?? join(cache, "surge/ik_llama.cpp/build-0.1.5/bin/llama-bench");
  if (existsSync(path)) return path;
  throw new SurgeError("missing", `${path} is not there; scripts/build_ik_llama.sh builds it.`);
}

/** Its strongest setting: fused experts, weights repacked when they are loaded. */
function runIk({ model, threads, phase, tokens, repeats }: PeerRun): number[] {
  const counts = phase === "decode" ? ["-p", "0", "-n", tokens] : ["-p", tokens, "-n", "0"];
  const words = ["-m", model, "-t", threads, "-fmoe", "1", "-rtr", "1", "-r", repeats, "-o", "json", ...counts];
  const [test] = JSON.parse(execute([ikBench(), ...words.map(String)])) as Array<{ samples_ts: number[] }>;
  return test!.samples_ts;
}

/** Tokens per second of each run. */
export function runPeer(peer: Peer, run: PeerRun): number[] {
  return peer === "llama.cpp" ? runLlama(run) : runIk(run);
}
