/**
 * Structs in buffers, by the generated layout. A StructArray is a run of equal structs that C reads as an array; struct_size is
 * filled in where the layout has it. Numbers are checked against their field's range, so that nothing wraps silently.
 */
import { ptr } from "bun:ffi";

type FieldType = "u8" | "u32" | "i32" | "u64" | "f32";

export interface Layout {
  readonly size: number;
  readonly fields: Readonly<
    Record<string, { readonly type: FieldType; readonly offset: number; readonly bytes: number }>
  >;
}

export type FieldName<L extends Layout> = Extract<keyof L["fields"], string>;

export class StructArray<L extends Layout> {
  readonly bytes: Uint8Array;
  readonly count: number;
  readonly #view: DataView;
  readonly #layout: L;

  constructor(layout: L, count = 1) {
    this.#layout = layout;
    this.count = count;
    /* C never reads an empty array, but a pointer needs something to point at. */
    this.bytes = new Uint8Array(Math.max(1, count) * layout.size);
    this.#view = new DataView(this.bytes.buffer);
    const size = layout.fields["struct_size"];
    for (let i = 0; size !== undefined && i < count; i++) {
      this.#view.setUint32(i * layout.size + size.offset, layout.size, true);
    }
  }

  /** Address for C, as a u64 field holds it. */
  get address(): bigint {
    return BigInt(ptr(this.bytes));
  }

  set(values: Partial<Record<FieldName<L>, number | bigint>>, index = 0): void {
    for (const [name, value] of Object.entries(values)) this.#write(name, value as number | bigint, index);
  }

  #write(name: string, value: number | bigint, index: number): void {
    const field = this.#layout.fields[name];
    if (field === undefined) throw new Error(`no field ${name}`);
    const at = index * this.#layout.size + field.offset;
    if (field.type === "f32") return this.#view.setFloat32(at, Number(value), true);
    const wide = BigInt(value);
    const limit = field.type === "u64" ? 1n << 64n : field.type === "u32" ? 1n << 32n : 1n << 31n;
    if (wide >= limit || wide < (field.type === "i32" ? -limit : 0n)) {
      throw new Error(`${name} = ${value} does not fit ${field.type}`);
    }
    if (field.type === "u64") this.#view.setBigUint64(at, wide, true);
    else if (field.type === "u32") this.#view.setUint32(at, Number(wide), true);
    else this.#view.setInt32(at, Number(wide), true);
  }

  /** All elements of an array of u64, each below 2^53 (counts and byte sums). */
  getAll(name: FieldName<L>): number[] {
    const field = this.#layout.fields[name]!;
    return Array.from(
      { length: field.bytes / 8 },
      (_, i) => Number(this.#view.getBigUint64(field.offset + 8 * i, true)),
    );
  }

  /** Numbers of the bits that are set in an array. */
  bits(name: FieldName<L>): number[] {
    const { offset, bytes } = this.#layout.fields[name]!;
    return Array.from({ length: bytes * 8 }, (_, bit) => bit).filter((bit) =>
      (this.bytes[offset + (bit >> 3)]! >> (bit & 7) & 1) === 1
    );
  }

  /** A scalar field; u64 must be below 2^53 here (counts and byte sums). */
  get(name: FieldName<L>, index = 0): number {
    const field = this.#layout.fields[name]!;
    const at = index * this.#layout.size + field.offset;
    if (field.type === "f32") return this.#view.getFloat32(at, true);
    if (field.type === "u64") return Number(this.#view.getBigUint64(at, true));
    return field.type === "i32" ? this.#view.getInt32(at, true) : this.#view.getUint32(at, true);
  }

  big(name: FieldName<L>): bigint {
    return this.#view.getBigUint64(this.#layout.fields[name]!.offset, true);
  }

  text(name: FieldName<L>, lengthBytes: number): string {
    const field = this.#layout.fields[name]!;
    return new TextDecoder().decode(
      this.bytes.subarray(field.offset, field.offset + Math.min(lengthBytes, field.bytes)),
    );
  }
}
