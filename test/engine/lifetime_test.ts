/** The child never outlives its parent and cannot be started by hand. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const SUPPORT = join(import.meta.dir, "../support");

/** Gone, or a zombie that nobody has collected yet. */
function isDead(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return true;
  try {
    return /^\d+ \(.*\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

async function waitForDeath(pid: number): Promise<void> {
  while (!isDead(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
}

test.each(["SIGKILL", "SIGTERM"] as const)("a parent that ends by %s takes its busy child with it", async (signal) => {
  const parent = Bun.spawn([process.execPath, join(SUPPORT, "engine_parent.ts")], {
    stdout: "pipe",
    stderr: "inherit",
  });
  const reader = parent.stdout.getReader();
  const { value } = await reader.read();
  const pid = Number(new TextDecoder().decode(value));
  expect(isDead(pid)).toBe(false);
  parent.kill(signal);
  await parent.exited;
  await waitForDeath(pid);
});

test("an engine child without a parent says what it is and ends", async () => {
  const child = Bun.spawn([process.execPath, join(SUPPORT, "engine_child.ts")], { stdout: "pipe", stderr: "pipe" });
  expect(await child.exited).toBe(64);
  expect(await new Response(child.stderr).text()).toBe(
    "engine-child is started by surge itself and not from a shell.\n",
  );
  expect(await new Response(child.stdout).text()).toBe("");
});
