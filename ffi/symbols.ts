/** The exported functions of libsurge.so as bun:ffi declarations; csrc/include/surge.h is the contract. */
import { FFIType } from "bun:ffi";

const { i32, u32, u64, f64, ptr } = FFIType;
const nothing = FFIType.void;

export const SYMBOLS = {
  surge_abi: { args: [ptr], returns: i32 },
  surge_engine_measure: { args: [ptr, ptr, ptr], returns: i32 },
  surge_engine_create: { args: [ptr, ptr, ptr], returns: i32 },
  surge_engine_destroy: { args: [ptr], returns: nothing },
  surge_sequence_open: { args: [ptr, ptr, ptr], returns: i32 },
  surge_sequence_fork: { args: [ptr, u32, ptr, ptr], returns: i32 },
  surge_sequence_close: { args: [ptr, u32, ptr], returns: i32 },
  surge_sequence_rewind: { args: [ptr, u32, u32, ptr], returns: i32 },
  surge_draft: { args: [ptr, ptr, u32, u32, ptr, ptr], returns: i32 },
  surge_step_begin: { args: [ptr, ptr, u32, ptr], returns: i32 },
  surge_step_run: { args: [ptr, u64, ptr, ptr], returns: i32 },
  surge_step_abandon: { args: [ptr, ptr], returns: i32 },
  surge_engine_counters: { args: [ptr, ptr, ptr], returns: i32 },
  surge_engine_placement: { args: [ptr, ptr, ptr], returns: i32 },
  surge_cpu: { args: [ptr, ptr], returns: i32 },
  surge_logits: { args: [ptr, u32, ptr, u32, ptr], returns: i32 },
  surge_sample_row: { args: [ptr, u32, u32, ptr, ptr, ptr], returns: i32 },
  surge_probe_open: { args: [u32, u64, ptr, ptr], returns: i32 },
  surge_probe_bandwidth: { args: [ptr], returns: f64 },
  surge_probe_int8: { args: [ptr], returns: f64 },
  surge_probe_close: { args: [ptr], returns: nothing },
} as const;
