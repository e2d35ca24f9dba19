/** The plan where nobody wrote one: from the command's flags, the model's shape and the machine. Decides; checks nothing against memory. */
import { SurgeError } from "../base/errors.ts";
import { draftRows } from "./draft.ts";
import { formatCpuList, type Machine } from "./machine.ts";
import { Plan } from "./schema.ts";

/** What of the model decides its plan. */
export interface PlannedModel {
  context: number;
  kvHeads: number;
  headDim: number;
  layerKinds: Array<"attention" | "gdn">;
}

export interface PlanFlags {
  threads?: number;
  cpus?: number[];
  mlock?: boolean;
  context?: number;
  kv?: Plan["kv"];
  precision?: Plan["precision"];
  weights?: Plan["weights"];
  draft?: Plan["draft"];
  draftTokens?: number;
  parallel?: number;
}

const STEP_ROWS = 512;
const DRAFT_TOKENS = 2;
/** Default contexts, largest first; the last is taken in any case. */
const CONTEXTS = [32768, 16384, 8192, 4096] as const;
/** Share of the machine's memory that the default context's keys and values may take. */
const KV_SHARE = 1 / 8;
const KV_BYTES = { f16: 2, f32: 4 } as const;

function kvBytesPerToken(model: PlannedModel, kv: Plan["kv"]): number {
  const layers = model.layerKinds.filter((kind) => kind === "attention").length;
  return layers * 2 * model.kvHeads * model.headDim * KV_BYTES[kv];
}

function defaultContext(
  model: PlannedModel,
  options: { kv: Plan["kv"]; parallel: number; memoryBytes: number },
): number {
  const { kv, parallel, memoryBytes } = options;
  const perToken = kvBytesPerToken(model, kv) * parallel;
  const fits = CONTEXTS.find((context) => context * perToken <= memoryBytes * KV_SHARE) ?? CONTEXTS.at(-1)!;
  return Math.min(model.context, fits);
}

function plan(fields: Omit<Plan, "schema" | "devices">): Plan {
  const parsed = Plan.safeParse({ schema: "surge.plan/1", devices: ["cpu"], ...fields });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new SurgeError("usage", `The value of ${issue.path.join(".")} is not possible: ${issue.message}.`);
}

/** Refuses a plan for other processors than this process may use. */
export function checkCpus({ cpus }: Pick<Plan, "cpus">, machine: Machine): void {
  const foreign = cpus?.find((cpu) => !machine.cpus.includes(cpu));
  if (foreign === undefined) return;
  const allowed = formatCpuList(machine.cpus);
  throw new SurgeError(
    "config",
    `The plan pins a thread to CPU ${foreign} and this process may run on CPU ${allowed}: name those, or leave --cpus out.`,
  );
}

/** How many threads: as many as were asked for, one for each CPU that was named, or one for each core. */
export function planThreads({ threads, cpus }: PlanFlags, machine: Machine): number {
  return threads ?? cpus?.length ?? machine.cores;
}

/** For conversations: 8-bit activations, F16 keys and values, a context that the machine can afford. A context beyond the model's is refused. */
export function chatPlan(model: PlannedModel, { flags, machine }: { flags: PlanFlags; machine: Machine }): Plan {
  const kv = flags.kv ?? "f16";
  const parallel = flags.parallel ?? 1;
  const context = flags.context ?? defaultContext(model, { kv, parallel, memoryBytes: machine.memoryBytes });
  if (context > model.context) {
    throw new SurgeError("usage", `A context of ${context} tokens was asked for and the model's is ${model.context}.`);
  }
  const precision = flags.precision ?? "fast";
  const drafting = { draft: flags.draft ?? "none", draftTokens: flags.draftTokens ?? DRAFT_TOKENS };
  const planned = plan({
    precision,
    kv,
    weights: flags.weights ?? "mapped",
    parallel,
    context,
    threads: planThreads(flags, machine),
    cpus: flags.cpus ?? null,
    mlock: flags.mlock ?? false,
    ...drafting,
    stepRows: STEP_ROWS + (parallel - 1) * (1 + draftRows(drafting)),
  });
  checkCpus(planned, machine);
  return planned;
}

/** For `tokens` given ids whose logits are compared with other engines': exact, F32 keys and values, unless told otherwise. */
export function logitsPlan(model: PlannedModel, options: { flags: PlanFlags; machine: Machine; tokens: number }): Plan {
  const { flags, machine, tokens } = options;
  const context = flags.context ?? Math.max(1, Math.min(tokens, model.context));
  return chatPlan(model, {
    flags: { ...flags, precision: flags.precision ?? "exact", kv: flags.kv ?? "f32", context, parallel: 1 },
    machine,
  });
}
