/**
 * By what a machine is known again, so that figures measured on one are not used on another: its processor, its memory and, since two
 * boxes may be alike or started from copies of one disk, its installation and its network adapters. Reads small files under /proc, /sys
 * and /etc through an injected reader. What a control group or an affinity takes away from a process is no other machine.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { arch } from "node:os";
import { z } from "zod";

/** Shown to people, from files: printable ASCII only. */
const shown = z.string().max(120).regex(/^[\x20-\x7e]*$/);
const digest = z.string().regex(/^[0-9a-f]{16}$/);

export const MachineKey = z.strictObject({
  architecture: shown,
  processor: shown,
  /** Logical processors that are switched on. */
  processors: z.number().int().min(1).max(65536),
  memory_bytes: z.number().int().nonnegative(),
  /** Those that kernels are chosen by. */
  instructions: z.array(shown).max(32),
  /** Digests; left out or empty where the system does not tell. */
  installation: digest.optional(),
  adapters: z.array(digest).max(64),
});
export type MachineKey = z.infer<typeof MachineKey>;

export interface KeySource {
  /** Undefined where the file is not there or may not be read. */
  read(path: string): string | undefined;
  /** The names in a folder; none where it is not there. */
  list(path: string): string[];
}

const SYSTEM: KeySource = {
  read(path) {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return undefined;
    }
  },
  list(path) {
    try {
      return readdirSync(path);
    } catch {
      return [];
    }
  },
};

const INSTRUCTIONS = ["avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8", "asimd", "asimddp", "i8mm", "sve"];
const NET = "/sys/class/net";
/** A kernel takes a little more or less of the memory for itself; a module more or less is far beyond. */
const MEMORY_TOLERANCE = 0.01;

/** Neither the machine's id nor an adapter's address is to be read from a profile that somebody sends around. */
function digestOf(text: string): string {
  return createHash("sha256").update(`surge.profile ${text.trim()}`).digest("hex").slice(0, 16);
}

function field(cpuinfo: string, name: string): string | undefined {
  return new RegExp(`^${name}[ \\t]*:[ \\t]*(.*)$`, "m").exec(cpuinfo)?.[1]?.trim();
}

/** "Intel(R) Xeon(R) Processor, model 6/207/2"; on arm64, where names are rare, implementer and part. */
function processorName(cpuinfo: string): string {
  const arm = ["CPU implementer", "CPU part", "CPU variant"].map((name) => field(cpuinfo, name) ?? "?").join("/");
  const model = ["cpu family", "model", "stepping"].map((name) => field(cpuinfo, name) ?? "?").join("/");
  const name = field(cpuinfo, "model name") ?? "processor";
  const text = field(cpuinfo, "CPU part") === undefined ? `${name}, model ${model}` : `${name}, part ${arm}`;
  return text.replace(/[^\x20-\x7e]/g, "?").slice(0, 120);
}

/** Of real adapters only: bridges and tunnels come and go. */
function adapters({ read, list }: KeySource): string[] {
  const found = list(NET).filter((name) => read(`${NET}/${name}/device/uevent`) !== undefined)
    .map((name) => read(`${NET}/${name}/address`)?.trim() ?? "")
    .filter((address) => /[1-9a-f]/i.test(address));
  return [...new Set(found.map(digestOf))].sort().slice(0, 64);
}

export function readMachineKey(source: KeySource = SYSTEM): MachineKey {
  const cpuinfo = source.read("/proc/cpuinfo") ?? "";
  const flags = new Set((field(cpuinfo, "flags") ?? field(cpuinfo, "Features") ?? "").split(/\s+/));
  const id = source.read("/etc/machine-id")?.trim() ?? "";
  const kib = Number(/^MemTotal:\s+(\d+)/m.exec(source.read("/proc/meminfo") ?? "")?.[1] ?? 0);
  return {
    architecture: arch(),
    processor: processorName(cpuinfo),
    processors: Math.max(1, Math.min(65536, cpuinfo.match(/^processor\s*:/gm)?.length ?? 0)),
    memory_bytes: kib * 1024,
    instructions: INSTRUCTIONS.filter((name) => flags.has(name)),
    ...(/^[0-9a-f]{32}$/.test(id) && { installation: digestOf(id) }),
    adapters: adapters(source),
  };
}

function gib(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}

/**
 * What tells two machines apart, in words behind "another machine:"; undefined where they are the same. Facts that one side does not
 * know are not judged. One adapter in common is enough: others are exchanged and plugged in.
 */
export function keyDifference(kept: MachineKey, here: MachineKey): string | undefined {
  const fields = ["architecture", "processor", "processors"] as const;
  for (const name of fields) {
    if (kept[name] !== here[name]) return `${name} ${kept[name]}, here ${here[name]}`;
  }
  if (Math.abs(kept.memory_bytes - here.memory_bytes) > MEMORY_TOLERANCE * here.memory_bytes) {
    return `memory ${gib(kept.memory_bytes)}, here ${gib(here.memory_bytes)}`;
  }
  if (kept.instructions.join(" ") !== here.instructions.join(" ")) {
    return `instructions ${kept.instructions.join(" ") || "none"}, here ${here.instructions.join(" ") || "none"}`;
  }
  if (kept.installation !== undefined && here.installation !== undefined && kept.installation !== here.installation) {
    return "another /etc/machine-id";
  }
  const strangers = kept.adapters.length > 0 && here.adapters.length > 0 &&
    !kept.adapters.some((each) => here.adapters.includes(each));
  return strangers ? "none of its network adapters is here" : undefined;
}
