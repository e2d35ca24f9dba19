/** The child's loop with an engine of paper: what is answered to which message, and in what order. */
import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Backend } from "../../src/engine/backend.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import type { ChildMessage, ParentMessage } from "../../src/engine/protocol.ts";
import { readModel } from "../../src/model/source.ts";
import { enginePlan, GOLDEN_MODEL, greedyRequest } from "../support/engine.ts";
import { FakeEngine } from "../support/fake_engine.ts";

const manifest = readModel(GOLDEN_MODEL);
const vocab = manifest.config.vocab;
const plan = enginePlan();
const MEMORY = { kv: 1, states: 2, scratch: 3, vectors: 4, tables: 5, total: 15, mapped: 100, copied: 0 };
const OPEN = { type: "open", id: 1, manifest, plan, memoryLimitBytes: 2 ** 40 } as const;

function rig() {
  const engines: FakeEngine[] = [];
  const probe = { bandwidth: () => 10e9, int8: () => 100e9, close: () => {} };
  const backend: Backend = {
    isa: () => "paper",
    probe: () => probe,
    locate: (given) => given,
    measure: () => MEMORY,
    open(_manifest, { parallel, stepRows }) {
      engines.push(new FakeEngine({ sequences: parallel, stepRows, vocab }));
      return engines.at(-1)!;
    },
  };
  const sent: ChildMessage[] = [];
  let wake = () => {};
  const loop = new EngineLoop(backend, {
    send: (message) => {
      sent.push(message);
      wake();
    },
  });
  /** Waits until a message is there for which `is` holds. */
  const until = async (is: (message: ChildMessage) => boolean): Promise<ChildMessage> => {
    while (!sent.some(is)) await new Promise<void>((resolve) => wake = resolve);
    return sent.find(is)!;
  };
  return { loop, sent, engines, until };
}

function ends(id: number) {
  return (message: ChildMessage) =>
    message.type === "step" &&
    message.events.some((event) => event.id === id && ["finished", "failed"].includes(event.type));
}

function events(sent: ChildMessage[], id: number) {
  return sent.flatMap((message) => message.type === "step" ? message.events : []).filter((event) => event.id === id);
}

test("open answers with the memory; its progress ends at the total", async () => {
  const { loop, sent } = rig();
  await loop.receive(OPEN);
  expect(sent.at(-1)).toEqual({ type: "opened", id: 1, memory: MEMORY, warning: undefined });
  const bytes = manifest.files[0]!.bytes;
  expect(sent.at(-2)).toEqual({ type: "loading", id: 1, doneBytes: bytes, totalBytes: bytes });
});

test("weights larger than memory are opened with a warning and not read ahead", async () => {
  const { loop, sent } = rig();
  const needed = MEMORY.total + vocab * 1100 + 32 * 1024 * 1024;
  await loop.receive({ ...OPEN, memoryLimitBytes: needed + MEMORY.mapped - 1 });
  expect(sent.map((message) => message.type)).toEqual(["opened"]);
  expect(sent[0]).toMatchObject({ warning: expect.stringContaining("exceed the memory left") });
});

test("what does not fit takes nothing", async () => {
  const { loop, sent, engines } = rig();
  await loop.receive({ ...OPEN, memoryLimitBytes: 1 });
  expect(sent).toMatchObject([{ type: "failed", id: 1, kind: "memory" }]);
  expect(engines).toEqual([]);
});

test("everything asked before a model is open is answered with an error", async () => {
  const { loop, sent } = rig();
  await loop.receive({ type: "generate", id: 2, request: greedyRequest([1]) });
  await loop.receive({ type: "logits", id: 3, request: { ids: [1], all: false, path: "/nowhere" } });
  await loop.receive({ type: "cancel", id: 9 });
  await loop.receive({ type: "forget", conversation: "x" });
  expect(sent).toMatchObject([
    { type: "step", events: [{ type: "failed", id: 2, kind: "unavailable" }] },
    { type: "failed", id: 3, kind: "unavailable" },
  ]);
});

test("one message per step; messages that arrive between two steps count in the next", async () => {
  const { loop, sent, engines, until } = rig();
  await loop.receive(OPEN);
  const cancel: ParentMessage = { type: "cancel", id: 2 };
  engines[0]!.onStep = () => engines[0]!.steps.length === 2 && void setImmediate(() => void loop.receive(cancel));
  await loop.receive({ type: "generate", id: 2, request: greedyRequest(new Array(400).fill(3)) });
  await until(ends(2));
  const own = events(sent, 2);
  expect(own.at(-1)).toMatchObject({ type: "finished", reason: "cancelled", stats: { answerTokens: 0 } });
  expect(sent.filter((message) => message.type === "step")).toHaveLength(engines[0]!.steps.length + 1);
  expect(engines[0]!.steps.at(-1)!.at(-1)!.position).toBeLessThan(399);
  expect(engines[0]!.open.size).toBe(0);
});

test("a second model takes the first one's place; while at work it is refused", async () => {
  const { loop, sent, engines, until } = rig();
  await loop.receive(OPEN);
  await loop.receive({ type: "generate", id: 2, request: greedyRequest([1, 2]) });
  await loop.receive({ ...OPEN, id: 3 });
  expect(sent.at(-1)).toMatchObject({ type: "failed", id: 3, kind: "internal" });
  await until(ends(2));
  await new Promise(setImmediate);
  await loop.receive({ ...OPEN, id: 4 });
  expect(sent.at(-1)).toMatchObject({ type: "opened", id: 4 });
  expect(engines).toHaveLength(2);
  expect(engines[0]!.open.size).toBe(0);
});

test("logits that are cancelled or fail leave neither file nor sequence", async () => {
  const folder = mkdtempSync(join(tmpdir(), "surge-test-"));
  const path = join(folder, "out.f32");
  const { loop, engines, until } = rig();
  await loop.receive(OPEN);
  const ids = new Array(300).fill(1);
  engines[0]!.onStep = () =>
    engines[0]!.steps.length === 2 && void setImmediate(() => void loop.receive({ type: "cancel", id: 5 }));
  await loop.receive({ type: "logits", id: 5, request: { ids, all: true, path } });
  expect(await until((message) => message.type === "failed")).toMatchObject({ id: 5, kind: "interrupted" });
  expect(existsSync(path)).toBe(false);
  engines[0]!.failStep = new Error("broken");
  await loop.receive({ type: "logits", id: 6, request: { ids, all: true, path } });
  expect(await until((message) => message.type === "failed" && message.id === 6)).toMatchObject({
    kind: "internal",
    message: "broken",
  });
  expect(existsSync(path)).toBe(false);
  expect(engines[0]!.open.size).toBe(0);
  rmSync(folder, { recursive: true });
});

test("the machine is named and measured on request, without a model", async () => {
  const { loop, sent } = rig();
  await loop.receive({ type: "machine", id: 7 });
  expect(sent.at(-1)).toEqual({ type: "machine", id: 7, isa: "paper" });
  await loop.receive({ type: "machine", id: 8, measure: { threads: 2, bytes: 2 ** 20 } });
  expect(sent.at(-1)).toEqual({
    type: "machine",
    id: 8,
    isa: "paper",
    rates: { bytesPerSecond: 10e9, int8PerSecond: 100e9 },
  });
});

test("a measurement runs decode steps in every sequence, gives back what it borrowed, and can be cancelled in a slice", async () => {
  const { loop, engines, until } = rig();
  await loop.receive({ ...OPEN, plan: { ...plan, parallel: 2 } });
  const request = {
    phase: "decode",
    depth: 70,
    batch: 2,
    tokens: 3,
    repeats: 2,
    threads: 1,
    probeBytes: 2 ** 20,
  } as const;
  await loop.receive({ type: "bench", id: 2, request });
  const done = await until((message) => message.type === "bench_done");
  expect(done).toMatchObject({ id: 2, runs: [{ macs: 0 }, { bytes: 300 }] });
  expect((done as Extract<ChildMessage, { type: "bench_done" }>).runs[0]!.stepMs).toHaveLength(3);
  expect(engines[0]!.open.size).toBe(0);
  engines[0]!.slices = 2;
  await loop.receive({ type: "bench", id: 3, request: { ...request, phase: "prefill", batch: 1, tokens: 100 } });
  await new Promise((resolve) => setImmediate(resolve));
  await loop.receive({ type: "cancel", id: 3 });
  expect(await until((message) => message.type === "failed")).toMatchObject({ id: 3, kind: "interrupted" });
  expect(engines[0]!.open.size).toBe(0);
  await loop.receive({ type: "bench", id: 4, request: { ...request, depth: 10_000 } });
  expect(await until((message) => message.type === "failed" && message.id === 4)).toMatchObject({ kind: "usage" });
});
