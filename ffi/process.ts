/** Ties the engine child's life to its parent's, below JavaScript: the kernel ends it even when its loop is busy. */
import { dlopen } from "bun:ffi";

const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9;

export function dieWithParent(): void {
  const libc = dlopen("libc.so.6", { prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" } });
  libc.symbols.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}
