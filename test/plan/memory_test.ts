import { expect, test } from "bun:test";
import { SurgeError } from "../../src/base/errors.ts";
import { accountMemory, checkMemory, type MemoryUse } from "../../src/plan/memory.ts";

const MIB = 1024 ** 2;
const USE: MemoryUse = {
  kv: 160 * MIB,
  states: 60 * MIB,
  scratch: 30 * MIB,
  vectors: 4 * MIB,
  tables: 2 * MIB,
  total: 256 * MIB,
  mapped: 1000 * MIB,
  copied: 0,
};
const account = accountMemory(USE, { vocab: 100_000, mlock: false });

test("every measured byte is in the account exactly once", () => {
  const measured = account.classes.slice(0, 4).reduce((sum, { bytes }) => sum + bytes, 0);
  expect(measured).toBe(USE.total);
  expect(account.neededBytes).toBe(USE.total + 100_000 * 1100 + 32 * MIB);
});

test("what does not fit by one byte is refused with needs by class and what there is", () => {
  let thrown: unknown;
  try {
    checkMemory(account, account.neededBytes - 1);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(SurgeError);
  expect((thrown as SurgeError).exitCode).toBe(71);
  expect((thrown as SurgeError).message).toBe(
    "Not enough memory: 392.9 MiB are needed (KV 160.0 MiB, states 60.0 MiB, scratch 30.0 MiB, tables 6.0 MiB, " +
      "tokenizer 104.9 MiB, process 32.0 MiB) and 392.9 MiB are available; lower --ctx or free memory.",
  );
});

test("weights that do not fit beside it are one warning, weights that do are none", () => {
  expect(checkMemory(account, account.neededBytes + USE.mapped)).toBeUndefined();
  const warning = checkMemory(account, account.neededBytes + USE.mapped - MIB);
  expect(warning).toBe(
    "The weights (1000.0 MiB) exceed the memory left for them (999.0 MiB): parts are read from disk again and again, which is slow.",
  );
});

test("locked weights must fit: the system cannot take their pages back", () => {
  const locked = accountMemory(USE, { vocab: 100_000, mlock: true });
  expect(locked.neededBytes).toBe(account.neededBytes + USE.mapped);
  expect(checkMemory(locked, locked.neededBytes)).toBeUndefined();
  expect(() => checkMemory(locked, locked.neededBytes - 1)).toThrow(/\(locked weights 1000\.0 MiB, KV /);
});

test("copied weights count as memory of our own and lead the list", () => {
  const copied = accountMemory({ ...USE, mapped: 0, copied: 500 * MIB }, { vocab: 100_000, mlock: false });
  expect(copied.neededBytes).toBe(account.neededBytes + 500 * MIB);
  expect(() => checkMemory(copied, copied.neededBytes - 1)).toThrow(/\(weights 500\.0 MiB, KV /);
});
