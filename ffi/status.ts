/** The only place where a C status becomes an error a person reads. */
import { type ErrorKind, SurgeError } from "../src/base/errors.ts";
import { STATUS, surge_error } from "./layout.gen.ts";
import { StructArray } from "./table.ts";

/** What the indices in a surge_error mean. */
export interface ErrorNames {
  file(index: number): string | undefined;
  tensor(index: number): { name: string; file: string } | undefined;
}

const KINDS: Record<string, ErrorKind> = {
  E_MEMORY: "memory",
  E_MISSING: "missing",
  E_IO: "missing",
  E_DATA: "data",
  E_CHANGED: "data",
  E_DTYPE: "data",
  E_CONTEXT: "usage",
  E_DEVICE: "config",
  E_NUMERIC: "data",
};

export function newError(): StructArray<typeof surge_error> {
  return new StructArray(surge_error);
}

/** Throws a SurgeError for a negative status; the sentence names file and tensor where C knew them. */
export function check(status: number, error: StructArray<typeof surge_error>, names?: ErrorNames): void {
  if (status >= 0) return;
  const kind = KINDS[STATUS[status]?.name ?? ""] ?? "internal";
  const message = error.text("message", error.get("message_bytes")) || (STATUS[status]?.meaning ?? `status ${status}`);
  const tensor = names?.tensor(error.get("tensor"));
  const file = names?.file(error.get("file")) ?? tensor?.file;
  const subject = tensor !== undefined
    ? `${file}: tensor ${tensor.name} ${message}`
    : file !== undefined
    ? `${file} ${message}`
    : message;
  throw new SurgeError(kind, subject + (subject.endsWith(".") ? "" : "."));
}
