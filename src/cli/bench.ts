/** `surge bench`: the machine's limits, and how near to them a model runs. */
import { arch, cpus } from "node:os";
import { EXIT, SurgeError } from "../base/errors.ts";
import { type Placement, startEngine } from "../engine/client.ts";
import { chatPlan, planThreads } from "../plan/default_plan.ts";
import { readMachine } from "../plan/machine.ts";
import { type Peer, PEERS, runPeer } from "../tools/peers.ts";
import { benchContext, benchModel, type BenchOptions, type BenchResult } from "../tools/bench.ts";
import { describePlacement, pagesReport } from "../tools/placement.ts";
import { percentile, percentiles } from "../tools/roofline.ts";
import { type Command, modelAndRest } from "./command.ts";
import { MODEL_FLAG, type Parsed, PLAN_FLAGS } from "./flags.ts";
import { manifestOf, openEngine, planFlags } from "./session.ts";
import { writeOut } from "./stdio.ts";

/** Larger than any cache; small enough for every machine that runs a model. */
const PROBE_BYTES = 2 ** 30;

function listOf(args: Parsed, name: string, fallback: number[], most: number): number[] {
  const text = args.text(name);
  if (text === undefined) return fallback;
  const numbers = text.split(",").filter((word) => word !== "").map(Number);
  const bad = numbers.find((each) => !Number.isInteger(each) || each < 0 || each > most);
  if (bad === undefined && numbers.length <= 16) return numbers;
  throw new SurgeError(
    "usage",
    `--${name} takes at most 16 whole numbers from 0 to ${most} with commas between, not "${text}".`,
  );
}

function processor() {
  return { processor: cpus()[0]?.model.trim() ?? arch(), architecture: arch(), cores: readMachine().cores };
}

/** Medians of five. */
async function benchMachine(threads: number) {
  const client = startEngine();
  try {
    const bandwidth: number[] = [];
    const int8: number[] = [];
    for (let i = 0; i < 5; i++) {
      const { rates } = await client.machine({ threads, bytes: PROBE_BYTES });
      bandwidth.push(rates!.bytesPerSecond / 1e9);
      int8.push(rates!.int8PerSecond / 1e9);
    }
    const { isa } = await client.machine();
    return {
      machine: { ...processor(), threads },
      isa,
      bandwidth_gbps: percentile(bandwidth, 0.5),
      int8_gops: percentile(int8, 0.5),
    };
  } finally {
    await client.close();
  }
}

function line(result: BenchResult): string {
  const { phase, depth, batch, tokens, tokens_per_second: speed, share_of_roof: share } = result;
  const what = phase === "prefill" ? `prefill ${tokens}` : `decode, depth ${depth}, batch ${batch}`;
  const range = `${speed.p50.toFixed(2)} tok/s (${speed.p10.toFixed(2)} to ${speed.p90.toFixed(2)})`;
  return `${what.padEnd(30)} ${range.padEnd(34)} ${(100 * share).toFixed(0)} % of the roof\n`;
}

async function benchOne(model: string, args: Parsed) {
  const peers = peersOf(args);
  const manifest = manifestOf(model);
  const machine = readMachine();
  const abort = new AbortController();
  process.once("SIGINT", () => abort.abort());
  const json = args.toggle("json") === true;
  const options: BenchOptions = {
    depths: listOf(args, "depth", [0], 1 << 20),
    batches: listOf(args, "batch", [1], 256),
    prefill: listOf(args, "prefill", [256, 512], 4096),
    tokens: args.number("tokens") ?? 32,
    repeats: args.number("repeats") ?? 5,
    threads: planThreads(planFlags(args), machine),
    probeBytes: PROBE_BYTES,
    signal: abort.signal,
    onResult: (result) => void (json || process.stdout.write(line(result))),
  };
  const context = Math.min(manifest.config.context, benchContext(options));
  const parallel = Math.max(1, ...options.batches);
  const plan = chatPlan(manifest.config, { flags: { context, ...planFlags(args), parallel }, machine });
  const client = await openEngine(manifest, plan);
  let results: BenchResult[];
  let isa: string;
  let placement: Placement;
  try {
    results = await benchModel(client, options);
    isa = (await client.machine()).isa;
    placement = await client.placement();
  } finally {
    await client.close();
  }
  if (!json) process.stdout.write(describePlacement(placement));
  const median = (field: "bandwidth_gbps" | "int8_gops") => percentile(results.map((result) => result[field]), 0.5);
  return {
    machine: { ...processor(), threads: options.threads },
    isa,
    bandwidth_gbps: median("bandwidth_gbps"),
    int8_gops: median("int8_gops"),
    model: manifest.name,
    plan,
    pages: pagesReport(placement),
    results,
    ...(peers.length > 0 &&
      { versus: compare(peers, model, { results, threads: options.threads, repeats: options.repeats }) }),
  };
}

/** Peers run between our own process's end and the report, one after the other: they do not share the machine with us. */
function compare(peers: Peer[], model: string, { results, threads, repeats }: {
  results: BenchResult[];
  threads: number;
  repeats: number;
}) {
  const comparable = results.filter(({ depth, batch }) => depth === 0 && batch === 1);
  return peers.flatMap((peer) =>
    comparable.map(({ phase, tokens, tokens_per_second: ours }) => {
      const speed = percentiles(runPeer(peer, { model, threads, phase, tokens, repeats }));
      return { peer, phase, tokens, tokens_per_second: speed, ratio: ours.p50 / speed.p50 };
    })
  );
}

function peersOf(args: Parsed): Peer[] {
  return args.texts("vs").map((name) => {
    const peer = PEERS.find((each) => each === name);
    if (peer !== undefined) return peer;
    throw new SurgeError("usage", `--vs takes ${PEERS.join(" or ")}, not "${name}".`);
  });
}

export const bench: Command = {
  name: "bench",
  summary: "how fast this machine and a model on it are, against the machine's own limits",
  usage: "bandwidth|compute|MODEL [--json]",
  most: 1,
  flags: [
    MODEL_FLAG,
    { name: "json", kind: "switch", help: "as JSON" },
    { name: "depth", kind: "text", value: "N,…", help: "tokens before the decode runs (default 0)" },
    { name: "batch", kind: "text", value: "N,…", help: "sequences that decode together (default 1)" },
    { name: "prefill", kind: "text", value: "N,…", help: "prompt lengths (default 256,512)" },
    { name: "tokens", alias: ["n"], kind: "number", whole: true, min: 1, max: 1024, help: "decode steps of a run" },
    { name: "vs", kind: "texts", value: "ENGINE", help: `also run ${PEERS.join(" or ")} (development tree)` },
    { name: "repeats", alias: ["r"], kind: "number", whole: true, min: 1, max: 100, help: "runs of each kind" },
    ...PLAN_FLAGS,
  ],
  async run(args) {
    const { model } = modelAndRest(args);
    if (model === undefined) throw new SurgeError("usage", `surge bench ${this.usage}`);
    const isMachine = model === "bandwidth" || model === "compute";
    const report = isMachine
      ? await benchMachine(args.number("threads") ?? readMachine().cores)
      : await benchOne(model, args);
    if (args.toggle("json") === true) await writeOut(`${JSON.stringify(report, null, 2)}\n`);
    else if (model === "bandwidth") await writeOut(`${report.bandwidth_gbps.toFixed(1)} GB/s read\n`);
    else if (model === "compute") {
      await writeOut(`${report.int8_gops.toFixed(0)} billion 8-bit operations per second (${report.isa})\n`);
    } else {await writeOut(
        `${report.isa}, ${report.bandwidth_gbps.toFixed(1)} GB/s, ${report.int8_gops.toFixed(0)} GOPS\n`,
      );}
    return EXIT.ok;
  },
};
