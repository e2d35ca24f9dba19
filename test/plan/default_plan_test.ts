import { expect, test } from "bun:test";
import { SurgeError } from "../../src/base/errors.ts";
import { chatPlan, logitsPlan, type PlanFlags, type PlannedModel } from "../../src/plan/default_plan.ts";

const GIB = 1024 ** 3;
/** 10 attention layers of 40, 2 heads of 256: 20 KiB a token in F16. */
const MODEL: PlannedModel = {
  context: 262144,
  kvHeads: 2,
  headDim: 256,
  layerKinds: Array.from({ length: 40 }, (_, i) => i % 4 === 3 ? "attention" : "gdn"),
};

function machine(memoryBytes: number) {
  return { cores: 6, cpus: [0, 1, 2, 3, 4, 5, 8], memoryBytes, availableBytes: memoryBytes };
}

function thrownBy(call: () => unknown): SurgeError {
  try {
    call();
  } catch (error) {
    if (error instanceof SurgeError) return error;
  }
  throw new Error("no SurgeError was thrown");
}

test("a conversation gets F16 keys and values, every core, and the context the machine affords", () => {
  expect(chatPlan(MODEL, { flags: {}, machine: machine(32 * GIB) })).toEqual({
    schema: "surge.plan/1",
    devices: ["cpu"],
    precision: "fast",
    weights: "mapped",
    kv: "f16",
    threads: 6,
    cpus: null,
    mlock: false,
    context: 32768,
    parallel: 1,
    draft: "none",
    draftTokens: 2,
    stepRows: 512,
  });
  const contexts = [4, 2, 1].map((gib) => chatPlan(MODEL, { flags: {}, machine: machine(gib * GIB) }).context);
  expect(contexts).toEqual([16384, 8192, 4096]);
  expect(chatPlan({ ...MODEL, context: 2048 }, { flags: {}, machine: machine(64 * GIB) }).context).toBe(2048);
});

test("flags win", () => {
  const flags = { threads: 3, context: 1000, kv: "f32", parallel: 4 } as const;
  expect(chatPlan(MODEL, { flags, machine: machine(GIB) })).toMatchObject({ ...flags, stepRows: 515 });
});

test("a context beyond the model's and impossible numbers are usage errors that name the flag's value", () => {
  const beyond = thrownBy(() => chatPlan(MODEL, { flags: { context: 300_000 }, machine: machine(GIB) }));
  expect(beyond).toMatchObject({
    kind: "usage",
    message: "A context of 300000 tokens was asked for and the model's is 262144.",
  });
  for (const threads of [0, -1, 1.5, NaN, 100_000]) {
    const wrong = thrownBy(() => chatPlan(MODEL, { flags: { threads }, machine: machine(GIB) }));
    expect(wrong.kind).toBe("usage");
    expect(wrong.message).toStartWith("The value of threads is not possible");
  }
});

test("named CPUs set the threads; foreign ones are refused as configuration, other counts and doubles as use", () => {
  const planned = (flags: PlanFlags) => chatPlan(MODEL, { flags, machine: machine(GIB) });
  expect(planned({ cpus: [8, 1] })).toMatchObject({ cpus: [8, 1], threads: 2 });
  const foreign = thrownBy(() => planned({ cpus: [1, 7] }));
  expect(foreign).toMatchObject({
    exitCode: 78,
    message: "The plan pins a thread to CPU 7 and this process may run on CPU 0-5,8: name those, or leave --cpus out.",
  });
  for (const flags of [{ cpus: [1, 2], threads: 3 }, { cpus: [1, 1] }, { cpus: [1, 1], threads: 1 }]) {
    expect(thrownBy(() => planned(flags))).toMatchObject({
      exitCode: 64,
      message: "The value of cpus is not possible: each thread needs one CPU, and no two the same.",
    });
  }
});

test("logits are computed with F32 keys and values and a context of just the tokens", () => {
  const plan = logitsPlan(MODEL, { flags: {}, machine: machine(GIB), tokens: 100 });
  expect(plan).toMatchObject({ kv: "f32", context: 100, parallel: 1 });
  expect(logitsPlan(MODEL, { flags: { kv: "f16" }, machine: machine(GIB), tokens: 1 }).kv).toBe("f16");
});
