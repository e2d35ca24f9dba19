/** Structs as C reads them: offsets, sizes and ranges. Breaks when a number would wrap silently or land in the next field. */
import { expect, test } from "bun:test";
import { surge_error, surge_logit_bias, surge_memory, surge_row, surge_tensor_desc } from "../../ffi/layout.gen.ts";
import { StructArray } from "../../ffi/table.ts";

test("every struct of a run starts with its size, where the layout has one", () => {
  const tensors = new StructArray(surge_tensor_desc, 3);
  const view = new DataView(tensors.bytes.buffer);
  for (const i of [0, 1, 2]) expect(view.getUint32(i * surge_tensor_desc.size, true)).toBe(surge_tensor_desc.size);
  expect(new StructArray(surge_row, 2).bytes.every((byte) => byte === 0)).toBe(true);
});

test("fields land at their offsets, little-endian, in their own struct only", () => {
  const rows = new StructArray(surge_row, 2);
  rows.set({ sequence: 0x04030201, flags: 0xffffffff }, 1);
  expect(Array.from(rows.bytes.subarray(0, 16))).toEqual(new Array(16).fill(0));
  expect(Array.from(rows.bytes.subarray(16))).toEqual([1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]);
});

test("u64 takes the whole range", () => {
  const memory = new StructArray(surge_memory);
  memory.set({ total: (1n << 64n) - 1n });
  expect(memory.big("total")).toBe((1n << 64n) - 1n);
  memory.set({ total: 2 ** 53 });
  expect(memory.get("total")).toBe(2 ** 53);
});

test.each([
  [{ layer: 2 ** 31 }],
  [{ layer: -(2 ** 31) - 1 }],
  [{ role: -1 }],
  [{ role: 2 ** 32 }],
  [{ rows: 1.5 }],
  [{ rows: NaN }],
  [{ offset: -1n }],
  [{ offset: 1n << 64n }],
])("%p is refused", (values) => {
  const tensors = new StructArray(surge_tensor_desc);
  const before = tensors.bytes.slice();
  expect(() => tensors.set(values)).toThrow();
  expect(tensors.bytes).toEqual(before);
});

test("negative i32 and f32 come back", () => {
  const error = new StructArray(surge_error);
  error.set({ tensor: -1 });
  expect(error.get("tensor")).toBe(-1);
  const bias = new StructArray(surge_logit_bias);
  bias.set({ bias: -0.5 });
  expect(bias.get("bias")).toBe(-0.5);
});

test("an array of none still has an address", () => expect(new StructArray(surge_row, 0).address).toBeGreaterThan(0n));
