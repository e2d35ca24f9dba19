/** `surge bench`: the machine's limits, and how near to them a model runs. */
import { arch, cpus } from "node:os";
import { EXIT, SurgeError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { type Placement, startEngine } from "../engine/client.ts";
import { chatPlan, planThreads } from "../plan/default_plan.ts";
import { readMachine } from "../plan/machine.ts";
import { prepareProfile, type ProfilePlace, profilePlace, saveProfile } from "../plan/profile.ts";
import { benchContext, benchModel, type BenchOptions } from "../tools/bench.ts";
import { type BenchReport, type BenchResult, type MachineReport, PEERS } from "../tools/bench_report.ts";
import { opTable, resultLine, resultsHead, versusLines } from "../tools/bench_table.ts";
import { type Peer, runPeer } from "../tools/peers.ts";
import { describePlacement, pagesReport } from "../tools/placement.ts";
import { percentile, percentiles } from "../tools/roofline.ts";
import { type Command, modelAndRest } from "./command.ts";
import { MODEL_FLAG, type Parsed, PLAN_FLAGS } from "./flags.ts";
import { manifestOf, openEngine, planFlags } from "./session.ts";
import { writeOut } from "./stdio.ts";

/** Larger than any cache; small enough for every machine that runs a model. */
const PROBE_BYTES = 2 ** 30;

function listOf(
  args: Parsed,
  name: string,
  { fallback, least, most }: { fallback: number[]; least: number; most: number },
): number[] {
  const text = args.text(name);
  if (text === undefined) return fallback;
  const numbers = text.split(",").filter((word) => word !== "").map(Number);
  const bad = numbers.find((each) => !Number.isInteger(each) || each < least || each > most);
  if (bad === undefined && numbers.length <= 16) return numbers;
  throw new SurgeError(
    "usage",
    `--${name} takes at most 16 whole numbers from ${least} to ${most} with commas between, not "${text}".`,
  );
}

function processor() {
  return { processor: cpus()[0]?.model.trim() ?? arch(), architecture: arch(), cores: readMachine().cores };
}

/** Medians of five. */
async function benchMachine(threads: number): Promise<MachineReport> {
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

async function benchOne(model: string, args: Parsed): Promise<BenchReport> {
  const peers = peersOf(args);
  const manifest = manifestOf(model);
  const machine = readMachine();
  const abort = new AbortController();
  process.once("SIGINT", () => abort.abort());
  const json = args.toggle("json") === true;
  const options: BenchOptions = {
    depths: listOf(args, "depth", { fallback: [0], least: 0, most: 1 << 20 }),
    batches: listOf(args, "batch", { fallback: [1], least: 1, most: 256 }),
    prefill: listOf(args, "prefill", { fallback: [256, 512], least: 1, most: 4096 }),
    tokens: args.number("tokens") ?? 32,
    repeats: args.number("repeats") ?? 5,
    threads: planThreads(planFlags(args), machine),
    probeBytes: PROBE_BYTES,
    signal: abort.signal,
    onResult: (result) => void (json || process.stdout.write(resultLine(result))),
  };
  if (options.depths.length === 0 && options.prefill.length === 0) {
    throw new SurgeError("usage", "Nothing is left to measure: give --depth or --prefill a number.");
  }
  const context = Math.min(manifest.config.context, benchContext(options));
  const parallel = Math.max(1, ...options.batches);
  const plan = chatPlan(manifest.config, { flags: { context, ...planFlags(args), parallel }, machine });
  const client = await openEngine(manifest, plan);
  let results: BenchResult[];
  let isa: string;
  let placement: Placement;
  try {
    if (!json) await writeOut(resultsHead());
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

function asJson(report: MachineReport): string {
  return `${JSON.stringify(report, null, 2)}\n`;
}

function machineText({ bandwidth_gbps, int8_gops, isa }: MachineReport, which: "bandwidth" | "compute"): string {
  return which === "bandwidth"
    ? `${bandwidth_gbps.toFixed(1)} GB/s read\n`
    : `${int8_gops.toFixed(0)} billion 8-bit operations per second (${isa})\n`;
}

/** What comes after the lines of the results, which were printed as they came. */
function modelText({ isa, bandwidth_gbps, int8_gops, machine, results, versus }: BenchReport): string {
  const roof = `${isa}, ${machine.threads} threads: ${bandwidth_gbps.toFixed(1)} GB/s, ${int8_gops.toFixed(0)} GOPS\n`;
  return [`the roof: ${roof}`, versusLines(versus), ...results.map(opTable)].filter((part) => part !== "").join("\n");
}

/** After the report, which is not lost where the profile cannot be written. */
function keep({ isa, bandwidth_gbps, int8_gops, machine }: MachineReport, place: ProfilePlace): void {
  const figures = { isa, threads: machine.threads, bandwidth_gbps, int8_gops, measured: new Date().toISOString() };
  const { replaced } = saveProfile(figures, place);
  if (replaced !== undefined) log.warn(`An earlier profile was replaced: ${replaced}`);
  process.stderr.write(`${place.path}: figures of ${isa}, threads: ${machine.threads}\n`);
}

export const bench: Command = {
  name: "bench",
  summary: "how fast this machine and a model on it are, against the machine's own limits",
  usage: "bandwidth|compute|MODEL [--json] [--save-profile]",
  most: 1,
  flags: [
    MODEL_FLAG,
    { name: "json", kind: "switch", help: "as JSON" },
    { name: "save-profile", kind: "switch", help: "keep this machine's figures (surge info shows them)" },
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
    const threads = args.number("threads") ?? readMachine().cores;
    const json = args.toggle("json") === true;
    const place = args.toggle("save-profile") === true ? profilePlace() : undefined;
    if (place !== undefined) prepareProfile(place);
    let report: MachineReport;
    if (model === "bandwidth" || model === "compute") {
      report = await benchMachine(threads);
      await writeOut(json ? asJson(report) : machineText(report, model));
    } else {
      const measured = await benchOne(model, args);
      await writeOut(json ? asJson(measured) : modelText(measured));
      report = measured;
    }
    if (place !== undefined) keep(report, place);
    return EXIT.ok;
  },
};
