/** A status becomes the right kind of error and one sentence; breaks when an exit code or the file and tensor in a message go wrong. */
import { describe, expect, test } from "bun:test";
import { STATUS, surge_error } from "../../ffi/layout.gen.ts";
import { check, newError } from "../../ffi/status.ts";
import { SurgeError } from "../../src/base/errors.ts";

const NAMES = {
  file: (index: number) => ["a.gguf", "b.gguf"][index],
  tensor: (index: number) => index === 3 ? { name: "blk.0.attn_q.weight", file: "b.gguf" } : undefined,
};

/** An error struct as C leaves it. */
function written(status: number, message: string, place: { file?: number; tensor?: number } = {}) {
  const error = newError();
  const bytes = new TextEncoder().encode(message);
  error.set({ status, file: place.file ?? -1, tensor: place.tensor ?? -1, message_bytes: bytes.length });
  error.bytes.set(bytes, surge_error.fields.message.offset);
  return error;
}

function thrownBy(status: number, error: ReturnType<typeof newError>): SurgeError {
  try {
    check(status, error, NAMES);
  } catch (thrown) {
    if (thrown instanceof SurgeError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was thrown");
}

test("success reads nothing and throws nothing", () => {
  check(STATUS.OK, written(STATUS.E_DATA, "left over"), NAMES);
  check(5, newError(), NAMES);
});

test.each(
  [
    ["E_ARGUMENT", 70],
    ["E_MEMORY", 71],
    ["E_MISSING", 66],
    ["E_IO", 66],
    ["E_DATA", 65],
    ["E_CHANGED", 65],
    ["E_DTYPE", 65],
    ["E_CONTEXT", 64],
    ["E_LIMIT", 70],
    ["E_DEVICE", 78],
    ["E_NUMERIC", 65],
    ["E_POISONED", 70],
  ] as const,
)("%s ends with exit code %d", (name, exitCode) => {
  expect(thrownBy(STATUS[name], written(STATUS[name], "x")).exitCode).toBe(exitCode);
});

test("every status has a row above", () => expect(Object.keys(STATUS)).toHaveLength(13));

describe("the sentence", () => {
  test("names the file", () => {
    const error = written(STATUS.E_CHANGED, "was changed or replaced", { file: 0 });
    expect(thrownBy(STATUS.E_CHANGED, error).message).toBe("a.gguf was changed or replaced.");
  });

  test("names the tensor and its file", () => {
    const error = written(STATUS.E_DATA, "has 3 rows of 4", { tensor: 3 });
    expect(thrownBy(STATUS.E_DATA, error).message).toBe("b.gguf: tensor blk.0.attn_q.weight has 3 rows of 4.");
  });

  test("holds Unicode and does not end twice", () => {
    expect(thrownBy(STATUS.E_IO, written(STATUS.E_IO, "größer 模型.")).message).toBe("größer 模型.");
  });

  test("survives indices and lengths that mean nothing", () => {
    const error = written(STATUS.E_DATA, "x", { file: 99, tensor: 99 });
    error.set({ message_bytes: 0xffffffff });
    expect(thrownBy(STATUS.E_DATA, error).message).toStartWith("x");
  });

  test("does not repeat what an earlier call left", () => {
    const error = written(STATUS.E_DATA, "has 3 rows of 4", { tensor: 3 });
    expect(thrownBy(STATUS.E_MEMORY, error).message).toBe("memory could not be had.");
  });

  test("names a status that this program does not know", () => {
    const thrown = thrownBy(-99, newError());
    expect(thrown.kind).toBe("internal");
    expect(thrown.message).toContain("-99");
  });
});
