/**
 * The account of memory: what an engine needs, by class, against what there is. Refuses before anything is taken.
 *
 * Anonymous memory must fit; mapped weights need not, but are slow when they do not, which is worth one warning.
 */
import { SurgeError } from "../base/errors.ts";
import { formatBytes } from "../base/units.ts";

/** Bytes of anonymous memory by class, as the C library measured them, and file-backed bytes. */
export interface MemoryUse {
  kv: number;
  states: number;
  scratch: number;
  vectors: number;
  tables: number;
  total: number;
  mapped: number;
  /** Weights in memory of their own, not in the total. */
  copied: number;
}

/** Per entry of the vocabulary: 161 MB resident for 151,643 entries (bun 1.4.5, @huggingface/tokenizers 0.2.0). */
const TOKENIZER_BYTES_PER_ENTRY = 1100;
/** What the two processes still grow by: message buffers, threads' stacks, JavaScript heaps. */
const PROCESS_BYTES = 32 * 1024 * 1024;

export interface MemoryAccount {
  classes: Array<{ name: string; bytes: number }>;
  neededBytes: number;
  mappedBytes: number;
}

/** Weights that are locked need memory of their own as copied ones do: the system cannot take their pages back. */
export function accountMemory(use: MemoryUse, { vocab, mlock }: { vocab: number; mlock: boolean }): MemoryAccount {
  const locked = mlock ? use.mapped : 0;
  const classes = [
    ...(locked > 0 ? [{ name: "locked weights", bytes: locked }] : []),
    ...(use.copied > 0 ? [{ name: "weights", bytes: use.copied }] : []),
    { name: "KV", bytes: use.kv },
    { name: "states", bytes: use.states },
    { name: "scratch", bytes: use.scratch },
    { name: "tables", bytes: use.total - use.kv - use.states - use.scratch },
    { name: "tokenizer", bytes: vocab * TOKENIZER_BYTES_PER_ENTRY },
    { name: "process", bytes: PROCESS_BYTES },
  ];
  return { classes, neededBytes: classes.reduce((sum, { bytes }) => sum + bytes, 0), mappedBytes: use.mapped - locked };
}

/** "KV 160.0 MiB, states 60.1 MiB, …": the classes of an account. */
export function describeAccount(account: MemoryAccount): string {
  return account.classes.map(({ name, bytes }) => `${name} ${formatBytes(bytes)}`).join(", ");
}

/** Throws a memory error where the account does not fit; returns a warning where only the mapped weights do not. */
export function checkMemory(account: MemoryAccount, limitBytes: number): string | undefined {
  const { neededBytes, mappedBytes } = account;
  if (neededBytes > limitBytes) {
    const numbers = `${formatBytes(neededBytes)} are needed (${describeAccount(account)}) and ${
      formatBytes(limitBytes)
    } are available`;
    throw new SurgeError("memory", `Not enough memory: ${numbers}; lower --ctx or free memory.`);
  }
  const restBytes = limitBytes - neededBytes;
  if (mappedBytes <= restBytes) return undefined;
  return `The weights (${formatBytes(mappedBytes)}) exceed the memory left for them (${formatBytes(restBytes)}): ` +
    "parts are read from disk again and again, which is slow.";
}
