/** The only place where a C status becomes an error a person reads. */
import { type ErrorKind, SurgeError } from "../src/base/errors.ts";
import { STATUS, STATUS_TEXT, surge_error } from "./layout.gen.ts";
import { StructArray } from "./table.ts";

/** What the indices in a surge_error mean. */
export interface ErrorNames {
  file(index: number): string | undefined;
  tensor(index: number): { name: string; file: string } | undefined;
}

/** By status: whose fault it is. A call against the contract, a full table and a broken engine are the program's own. */
const KINDS: Record<Exclude<keyof typeof STATUS, "OK">, ErrorKind> = {
  E_ARGUMENT: "internal",
  E_MEMORY: "memory",
  E_MISSING: "missing",
  E_IO: "missing",
  E_DATA: "data",
  E_CHANGED: "data",
  E_DTYPE: "data",
  E_CONTEXT: "usage",
  E_LIMIT: "internal",
  E_DEVICE: "config",
  E_NUMERIC: "data",
  E_POISONED: "internal",
};

function kindOf(status: number): ErrorKind {
  const name = STATUS_TEXT[status]?.name as keyof typeof KINDS | undefined;
  return name === undefined ? "internal" : KINDS[name];
}

export function newError(): StructArray<typeof surge_error> {
  return new StructArray(surge_error);
}

/** Throws a SurgeError for a negative status; the sentence names file and tensor where C knew them. */
export function check(status: number, error: StructArray<typeof surge_error>, names?: ErrorNames): void {
  if (status >= 0) return;
  /* A struct that holds another status was not written by this call: what it says is about something else. */
  const written = error.get("status") === status;
  const message = (written && error.text("message", error.get("message_bytes"))) ||
    (STATUS_TEXT[status]?.meaning ?? `status ${status} of the C library`);
  const tensor = written ? names?.tensor(error.get("tensor")) : undefined;
  const file = (written ? names?.file(error.get("file")) : undefined) ?? tensor?.file;
  const subject = tensor !== undefined
    ? `${file}: tensor ${tensor.name} ${message}`
    : file !== undefined
    ? `${file} ${message}`
    : message;
  throw new SurgeError(kindOf(status), subject + (subject.endsWith(".") ? "" : "."));
}
