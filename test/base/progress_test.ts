import { expect, test } from "bun:test";
import { progressLine, startProgress } from "../../src/base/progress.ts";

function rig(isTty: boolean) {
  const time = { ms: 0 };
  const written: string[] = [];
  const progress = startProgress({
    label: "Loading",
    isTty,
    write: (text) => written.push(text),
    clock: () => time.ms,
  });
  return { time, written, progress };
}

test("what takes less than a second shows nothing, not even a removal", () => {
  const { time, written, progress } = rig(true);
  for (time.ms = 0; time.ms < 1000; time.ms += 50) progress.update(time.ms, 1000);
  progress.end();
  expect(written).toEqual([]);
});

test("what takes longer is drawn at most ten times a second and removed once", () => {
  const { time, written, progress } = rig(true);
  for (time.ms = 0; time.ms < 2000; time.ms += 10) progress.update(time.ms * 1024, 4000 * 1024);
  expect(written).toHaveLength(10);
  expect(written[0]).toBe("\r\x1b[KLoading ██████░░░░░░░░░░░░░░░░░░ 25% 1000.0 KiB of 3.9 MiB 1000.0 KiB/s 3.0 s left");
  progress.end();
  progress.end();
  expect(written.slice(10)).toEqual(["\r\x1b[K"]);
});

test("a pipe gets nothing", () => {
  const { time, written, progress } = rig(false);
  time.ms = 5000;
  progress.update(1, 2);
  progress.end();
  expect(written).toEqual([]);
});

test("a total of nothing and more than the total make no broken bar", () => {
  expect(progressLine("L", { doneBytes: 0, totalBytes: 0, elapsedMs: 0 })).toBe(
    `L ${"░".repeat(24)} 0% 0 B of 0 B 0 B/s`,
  );
  expect(progressLine("L", { doneBytes: 20, totalBytes: 10, elapsedMs: 1000 })).toStartWith(`L ${"█".repeat(24)} 100%`);
});
