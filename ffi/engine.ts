/**
 * NativeEngine: manifest and plan in, steps, samples and logits out. Owns the C engine's pointer and the buffers it is called with;
 * per token nothing is allocated but the result. Invariant: every buffer named in a call is referenced by this object or the frame.
 */
import { type Pointer, ptr } from "bun:ffi";
import { SurgeError } from "../src/base/errors.ts";
import type { Manifest, ManifestTensor } from "../src/model/manifest.ts";
import { draftRows, plannedManifest } from "../src/plan/draft.ts";
import type { Plan } from "../src/plan/schema.ts";
import type { EngineCounters, MemoryUse, Placement, SamplerOptions } from "../src/engine/protocol.ts";
import * as layout from "./layout.gen.ts";
import type { Library } from "./load.ts";
import { check, type ErrorNames, newError } from "./status.ts";
import { StructArray } from "./table.ts";

export interface StepRow {
  sequence: number;
  position: number;
  token: number;
  logits: boolean;
  /** May be taken back with rewindSequence; such rows come last in their sequence's, after one that stays. */
  draft?: boolean;
}

/** C's names are the manifest's and the plan's words in capitals; a word that C does not have is a type error here. */
function constant<T extends Record<string, number>>(values: T, word: Lowercase<Extract<keyof T, string>>): number {
  return values[word.toUpperCase()]!;
}

function modelDesc(manifest: Manifest, kinds: Uint8Array): StructArray<typeof layout.surge_model_desc> {
  const c = manifest.config;
  const desc = new StructArray(layout.surge_model_desc);
  desc.set({
    layers: c.layers,
    hidden: c.hidden,
    vocab: c.vocab,
    heads: c.heads,
    kv_heads: c.kvHeads,
    head_dim: c.headDim,
  });
  desc.set({ rotary_dim: c.rope.rotaryDim, attn_gated: c.attnGated ? 1 : 0, gdn_key_heads: c.gdnKeyHeads });
  desc.set({
    gdn_value_heads: c.gdnValueHeads,
    gdn_key_dim: c.gdnKeyDim,
    gdn_value_dim: c.gdnValueDim,
    gdn_conv: c.gdnConv,
  });
  desc.set({ gdn_head_order: constant(layout.HEADS, c.gdnHeadOrder), experts: c.experts, experts_used: c.expertsUsed });
  desc.set({
    expert_ff: c.expertFf,
    shared_ff: c.sharedFf,
    norm_topk: c.normTopk ? 1 : 0,
    rope_kind: constant(layout.ROPE, c.rope.kind),
  });
  desc.set({
    rope_original_context: c.rope.originalContext,
    rms_eps: c.rmsEps,
    rope_theta: c.rope.theta,
    rope_factor: c.rope.factor,
  });
  desc.set({
    rope_beta_fast: c.rope.betaFast,
    rope_beta_slow: c.rope.betaSlow,
    rope_attn_factor: c.rope.attentionFactor,
  });
  desc.set({ mtp_layers: c.mtpLayers, layer_kind_count: kinds.length, layer_kinds: BigInt(ptr(kinds)) });
  return desc;
}

function planDesc(plan: Plan, cpus: Uint32Array | undefined): StructArray<typeof layout.surge_plan_desc> {
  const desc = new StructArray(layout.surge_plan_desc);
  desc.set({
    precision: constant(layout.PRECISION, plan.precision),
    kv_dtype: constant(layout.KV, plan.kv),
    threads: plan.threads,
    context: plan.context,
  });
  desc.set({
    sequences: plan.parallel,
    step_rows: plan.stepRows,
    logits_rows: Math.min(plan.stepRows, Math.max(64, plan.parallel * (1 + draftRows(plan)))),
    draft_rows: draftRows(plan),
  });
  desc.set({
    npu_devices: plan.devices.filter((name) => name !== "cpu").length,
    copy_weights: plan.weights === "copied" ? 1 : 0,
    lock_memory: plan.mlock ? 1 : 0,
    cpus: cpus === undefined ? 0 : BigInt(ptr(cpus)),
  });
  return desc;
}

function dtypeId(name: string, tensor: ManifestTensor): number {
  const id = Object.hasOwn(layout.DTYPE, name) ? layout.DTYPE[name] : undefined;
  if (id === undefined) throw new SurgeError("data", `Tensor ${tensor.name} has type ${name}, which is not supported.`);
  return id;
}

function setTensor(
  tensors: StructArray<typeof layout.surge_tensor_desc>,
  t: ManifestTensor,
  index: number,
  scale: number,
): void {
  tensors.set({
    role: constant(layout.ROLE, t.role),
    layer: t.layer,
    dtype: dtypeId(t.dtype, t),
  }, index);
  tensors.set({ file: t.file, expert_first: t.expertFirst, expert_count: t.expertCount, row_first: t.rowFirst }, index);
  tensors.set({ rows: t.rows, cols: t.cols, transform: constant(layout.TRANSFORM, t.transform), scale }, index);
  tensors.set({ offset: t.offset, expert_stride: t.expertStride }, index);
}

/** The three flat tables; `keep` holds every buffer that the description points into. */
function describe(
  manifest: Manifest,
  plan: Plan,
): { desc: StructArray<typeof layout.surge_engine_desc>; keep: unknown[] } {
  const kinds = Uint8Array.from(manifest.config.layerKinds, (kind) => constant(layout.LAYER, kind));
  const paths = manifest.files.map((file) => new TextEncoder().encode(file.path));
  const files = new StructArray(layout.surge_file_desc, manifest.files.length);
  manifest.files.forEach((file, i) => {
    files.set({ path: BigInt(ptr(paths[i]!)), path_bytes: paths[i]!.length, bytes: file.bytes }, i);
    files.set({ mtime_ns: BigInt(file.mtimeNs), inode: BigInt(file.inode) }, i);
  });
  const tensors = new StructArray(layout.surge_tensor_desc, manifest.tensors.length);
  const scales = new StructArray(layout.surge_scale_desc, manifest.tensors.filter((t) => t.scale !== undefined).length);
  let scaleCount = 0;
  manifest.tensors.forEach((t, i) => {
    setTensor(tensors, t, i, t.scale === undefined ? -1 : scaleCount);
    if (t.scale === undefined) return;
    const s = t.scale;
    scales.set(
      { kind: constant(layout.SCALE, s.kind), dtype: dtypeId(s.dtype, t), file: s.file, row_first: s.rowFirst },
      scaleCount,
    );
    scales.set(
      { scale_rows: s.rows, scale_cols: s.cols, offset: s.offset, expert_stride: s.expertStride },
      scaleCount++,
    );
  });
  const model = modelDesc(manifest, kinds);
  const cpus = plan.cpus === null ? undefined : Uint32Array.from(plan.cpus);
  if (cpus !== undefined && cpus.length !== plan.threads) {
    throw new SurgeError("internal", `The plan names ${cpus.length} CPUs for ${plan.threads} threads.`);
  }
  const planned = planDesc(plan, cpus);
  const desc = new StructArray(layout.surge_engine_desc);
  desc.set({
    file_count: files.count,
    tensor_count: tensors.count,
    scale_count: scaleCount,
    model: model.address,
    plan: planned.address,
  });
  desc.set({ files: files.address, tensors: tensors.address, scales: scales.address });
  return { desc, keep: [kinds, paths, files, tensors, scales, model, planned, cpus] };
}

function namesOf(manifest: Manifest): ErrorNames {
  return {
    file: (index) => manifest.files[index]?.path,
    tensor: (index) => {
      const tensor = manifest.tensors[index];
      return tensor && { name: tensor.name, file: manifest.files[tensor.file]?.path ?? "" };
    },
  };
}

/** Bytes an engine would take, before anything is taken. */
export function measure(library: Library, model: Manifest, plan: Plan): MemoryUse {
  const manifest = plannedManifest(model, plan);
  const { desc, keep } = describe(manifest, plan);
  const memory = new StructArray(layout.surge_memory);
  const error = newError();
  check(library.surge_engine_measure(ptr(desc.bytes), ptr(memory.bytes), ptr(error.bytes)), error, namesOf(manifest));
  keep.length = 0;
  return {
    kv: memory.get("kv"),
    states: memory.get("states"),
    scratch: memory.get("scratch"),
    vectors: memory.get("vectors"),
    tables: memory.get("tables"),
    total: memory.get("total"),
    mapped: memory.get("mapped"),
    copied: memory.get("copied"),
  };
}

const U64_MAX = 0xffff_ffff_ffff_ffffn;

export class NativeEngine {
  readonly vocab: number;
  readonly #library: Library;
  readonly #names: ErrorNames;
  readonly #error = newError();
  readonly #sampler = new StructArray(layout.surge_sampler_desc);
  readonly #sample = new StructArray(layout.surge_sample);
  /** Ours, not a call's: the sampler's description holds its address, which no reference in the call would keep alive. */
  readonly #biases = new StructArray(layout.surge_logit_bias, layout.LIMIT.LOGIT_BIAS_MAX);
  readonly #counters = new StructArray(layout.surge_counters);
  readonly #number = new Uint32Array(1);
  readonly #rows: StructArray<typeof layout.surge_row>;
  #engine: Pointer | null;
  /** Sequences of the step that began last. */
  #moving: number[] = [];

  constructor(library: Library, model: Manifest, plan: Plan) {
    const manifest = plannedManifest(model, plan);
    const { desc, keep } = describe(manifest, plan);
    const out = new BigUint64Array(1);
    this.#library = library;
    this.#names = namesOf(manifest);
    this.#check(library.surge_engine_create(ptr(desc.bytes), ptr(out), ptr(this.#error.bytes)));
    keep.length = 0;
    this.#engine = Number(out[0]) as Pointer;
    this.#rows = new StructArray(layout.surge_row, plan.stepRows);
    this.vocab = manifest.config.vocab;
  }

  #check(status: number): void {
    check(status, this.#error, this.#names);
  }

  openSequence(): number {
    this.#check(this.#library.surge_sequence_open(this.#engine, ptr(this.#number), ptr(this.#error.bytes)));
    return this.#number[0]!;
  }

  /** A second sequence with the same past; pages are shared until one of them writes. */
  forkSequence(sequence: number): number {
    this.#check(this.#library.surge_sequence_fork(this.#engine, sequence, ptr(this.#number), ptr(this.#error.bytes)));
    return this.#number[0]!;
  }

  closeSequence(sequence: number): void {
    this.#check(this.#library.surge_sequence_close(this.#engine, sequence, ptr(this.#error.bytes)));
  }

  /** Takes back the sequence's last rows, down to the first that was marked as draft: then it is as if they had not been fed. */
  rewindSequence(sequence: number, length: number): void {
    this.#check(this.#library.surge_sequence_rewind(this.#engine, sequence, length, ptr(this.#error.bytes)));
  }

  /** The prediction layer's guess of `count` tokens after each row's own, which follows what its sequence holds. */
  draft(rows: StepRow[], count: number): number[][] {
    this.#setRows(rows);
    const tokens = new Uint32Array(rows.length * count);
    const status = this.#library.surge_draft(
      this.#engine,
      ptr(this.#rows.bytes),
      rows.length,
      count,
      ptr(tokens),
      ptr(this.#error.bytes),
    );
    this.#check(status);
    return rows.map((_, i) => Array.from(tokens.subarray(i * count, (i + 1) * count)));
  }

  /** A whole step at once. */
  step(rows: StepRow[]): void {
    this.beginStep(rows);
    while (!this.runStep(Infinity));
  }

  /** Moves no sequence when it throws. Until runStep returns true, the step's sequences cannot be closed or forked. */
  beginStep(rows: StepRow[]): void {
    this.#setRows(rows);
    this.#check(
      this.#library.surge_step_begin(this.#engine, ptr(this.#rows.bytes), rows.length, ptr(this.#error.bytes)),
    );
    this.#moving = [...new Set(rows.map((row) => row.sequence))];
  }

  #setRows(rows: StepRow[]): void {
    if (rows.length > this.#rows.count) {
      throw new SurgeError("internal", `A step of ${rows.length} rows exceeds the plan's ${this.#rows.count}.`);
    }
    rows.forEach((row, i) => {
      this.#rows.set({
        sequence: row.sequence,
        position: row.position,
        token: row.token,
        flags: (row.logits ? layout.ROW.LOGITS : 0) | (row.draft === true ? layout.ROW.DRAFT : 0),
      }, i);
    });
  }

  /** Goes on with the step for about `budgetMs`; true when it is done. */
  runStep(budgetMs: number): boolean {
    const budget = Number.isFinite(budgetMs) ? BigInt(Math.round(budgetMs * 1000)) : U64_MAX;
    this.#check(this.#library.surge_step_run(this.#engine, budget, ptr(this.#number), ptr(this.#error.bytes)));
    return this.#number[0] === 1;
  }

  /** Gives the step up; its sequences are closed and returned. */
  abandonStep(): number[] {
    this.#check(this.#library.surge_step_abandon(this.#engine, ptr(this.#error.bytes)));
    return this.#moving;
  }

  /** Work done since the engine was made, by class (csrc/include/surge.h, SURGE_OPS). */
  counters(): EngineCounters {
    this.#check(this.#library.surge_engine_counters(this.#engine, ptr(this.#counters.bytes), ptr(this.#error.bytes)));
    const [ns, bytes, macs] = (["ns", "bytes", "macs"] as const).map((field) => this.#counters.getAll(field)) as [
      number[],
      number[],
      number[],
    ];
    const ops = Object.entries(layout.OP).map(([name, at]) => (
      { name: name.toLowerCase(), ns: ns[at]!, bytes: bytes[at]!, macs: macs[at]! }
    ));
    return { steps: this.#counters.get("steps"), rows: this.#counters.get("rows"), ops };
  }

  /** What was got: pages of weights and of the engine's own memory, and where its threads may run. */
  placement(): Placement {
    const found = new StructArray(layout.surge_placement);
    this.#check(this.#library.surge_engine_placement(this.#engine, ptr(found.bytes), ptr(this.#error.bytes)));
    const pages = (field: "weights" | "arena") => {
      const bytes = found.getAll(field);
      const of = (name: keyof typeof layout.PAGE) => bytes[layout.PAGE[name]]!;
      return {
        mappedBytes: of("MAPPED"),
        residentBytes: of("RESIDENT"),
        anonHugeBytes: of("ANON_HUGE"),
        fileHugeBytes: of("FILE_HUGE"),
        lockedBytes: of("LOCKED"),
      };
    };
    return {
      weights: pages("weights"),
      arena: pages("arena"),
      cpus: found.bits("cpus"),
      pinnedThreads: found.get("pinned_threads"),
    };
  }

  /** The next token after the n-th row of the last step that asked for logits. `draw` numbers the random choices of one seed. */
  sample(logitsRow: number, sequence: number, options: SamplerOptions & { answerFrom: number; draw: number }): number {
    const biasCount = options.logitBias.length;
    if (biasCount > this.#biases.count) {
      throw new SurgeError("usage", `${biasCount} logit biases were given; ${this.#biases.count} are allowed.`);
    }
    options.logitBias.forEach(({ token, bias }, i) => this.#biases.set({ token, bias }, i));
    this.#sampler.set({
      temperature: options.temperature,
      top_k: options.topK,
      top_p: options.topP,
      min_p: options.minP,
    });
    this.#sampler.set({ presence_penalty: options.presencePenalty, frequency_penalty: options.frequencyPenalty });
    this.#sampler.set({
      repeat_penalty: options.repeatPenalty,
      answer_from: options.answerFrom,
      bias_count: biasCount,
    });
    this.#sampler.set({ biases: this.#biases.address, seed: options.seed, draw: options.draw });
    const status = this.#library.surge_sample_row(
      this.#engine,
      logitsRow,
      sequence,
      ptr(this.#sampler.bytes),
      ptr(this.#sample.bytes),
      ptr(this.#error.bytes),
    );
    this.#check(status);
    return this.#sample.get("token");
  }

  logits(logitsRow: number, into: Float32Array): void {
    this.#check(this.#library.surge_logits(this.#engine, logitsRow, ptr(into), into.length, ptr(this.#error.bytes)));
  }

  close(): void {
    if (this.#engine !== null) this.#library.surge_engine_destroy(this.#engine);
    this.#engine = null;
  }
}
