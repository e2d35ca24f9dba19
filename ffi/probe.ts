/** The machine as the C library finds it: the kernels it selects, and the measured limits that a roofline is made of. */
import { type Pointer, ptr } from "bun:ffi";
import * as layout from "./layout.gen.ts";
import type { Library } from "./load.ts";
import { check, type ErrorNames, newError } from "./status.ts";
import { StructArray } from "./table.ts";

const NO_NAMES: ErrorNames = { file: () => undefined, tensor: () => undefined };

/** The kernels that this processor and SURGE_ISA select. */
export function cpuIsa(library: Library): string {
  const info = new StructArray(layout.surge_cpu_info);
  const error = newError();
  check(library.surge_cpu(ptr(info.bytes), ptr(error.bytes)), error, NO_NAMES);
  const { offset } = layout.surge_cpu_info.fields.name;
  return new TextDecoder().decode(info.bytes.subarray(offset, offset + info.get("name_bytes")));
}

/** Threads and a buffer to measure with. They rest between measurements; close() gives them back. */
export class NativeProbe {
  readonly #library: Library;
  #probe: Pointer | null;

  constructor(library: Library, { threads, bytes }: { threads: number; bytes: number }) {
    const out = new BigUint64Array(1);
    const error = newError();
    check(library.surge_probe_open(threads, BigInt(bytes), ptr(out), ptr(error.bytes)), error, NO_NAMES);
    this.#library = library;
    this.#probe = Number(out[0]) as Pointer;
  }

  /** Bytes read per second, all threads together. */
  bandwidth(): number {
    return this.#library.surge_probe_bandwidth(this.#probe);
  }

  /** Operations on 8-bit values per second (a multiply-add is two), all threads together. */
  int8(): number {
    return 2 * this.#library.surge_probe_int8(this.#probe);
  }

  close(): void {
    if (this.#probe !== null) this.#library.surge_probe_close(this.#probe);
    this.#probe = null;
  }
}
