/**
 * What this machine lets the process have: cores and memory, seen through its control groups and its affinity.
 * Reads only small files under /proc and /sys, through an injected reader; decides nothing.
 */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

/** The content of a small file, or undefined where it is not there or may not be read. */
export type ReadText = (path: string) => string | undefined;

export interface Machine {
  /** Physical cores this process may run on, after the control groups' quota; at least 1. */
  cores: number;
  /** Logical processors this process may run on; empty where the system does not say. */
  cpus: number[];
  /** Memory this process could ever have. */
  memoryBytes: number;
  /** Memory it could have now: page cache counts as free. */
  availableBytes: number;
}

const CGROUP_ROOT = "/sys/fs/cgroup";
/** Depth to which a control group's ancestors are followed. */
const CGROUP_DEPTH_MAX = 64;

function readSystemText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function number(text: string | undefined): number | undefined {
  const trimmed = text?.trim() ?? "";
  return /^-?\d+$/.test(trimmed) ? Number(trimmed) : undefined;
}

function field(text: string | undefined, name: string): number | undefined {
  const match = new RegExp(`^${name}:?\\s+(\\d+)`, "m").exec(text ?? "");
  return match === null ? undefined : Number(match[1]);
}

/** Folders of the control group of one controller ("" is version 2) and of its ancestors, the process's own first. */
function cgroupFolders(read: ReadText, controller: string): string[] {
  const lines = (read("/proc/self/cgroup") ?? "").split("\n").map((line) => line.split(":"));
  const own = lines.find(([, names]) => controller === "" ? names === "" : names?.split(",").includes(controller));
  if (own === undefined) return [];
  const root = controller === "" ? CGROUP_ROOT : `${CGROUP_ROOT}/${controller}`;
  const parts = own.slice(2).join(":").split("/").filter((part) => part !== "" && part !== "..").slice(
    0,
    CGROUP_DEPTH_MAX,
  );
  return [...parts.keys(), parts.length].reverse().map((depth) => [root, ...parts.slice(0, depth)].join("/"));
}

interface MemoryLimit {
  limitBytes: number;
  usedBytes: number;
}

/** Used is what reclaiming the page cache would not give back. */
function memoryLimit(read: ReadText, folder: string, version: 1 | 2): MemoryLimit | undefined {
  const limitBytes = number(read(`${folder}/${version === 2 ? "memory.max" : "memory.limit_in_bytes"}`));
  const currentBytes = number(read(`${folder}/${version === 2 ? "memory.current" : "memory.usage_in_bytes"}`));
  if (limitBytes === undefined || currentBytes === undefined) return undefined;
  const stat = read(`${folder}/memory.stat`);
  const prefix = version === 2 ? "" : "total_";
  const cacheBytes = (field(stat, `${prefix}active_file`) ?? 0) + (field(stat, `${prefix}inactive_file`) ?? 0);
  return { limitBytes, usedBytes: Math.max(0, currentBytes - cacheBytes) };
}

function cpuQuota(read: ReadText, folder: string, version: 1 | 2): number | undefined {
  const [quota, period] = version === 2
    ? (read(`${folder}/cpu.max`) ?? "").trim().split(/\s+/).map(number)
    : [number(read(`${folder}/cpu.cfs_quota_us`)), number(read(`${folder}/cpu.cfs_period_us`))];
  return quota !== undefined && quota > 0 && period !== undefined && period > 0 ? quota / period : undefined;
}

function cgroupValues<T>(
  read: ReadText,
  controller: string,
  get: (folder: string, version: 1 | 2) => T | undefined,
): T[] {
  const values = [
    ...cgroupFolders(read, "").map((folder) => get(folder, 2)),
    ...cgroupFolders(read, controller).map((folder) => get(folder, 1)),
  ];
  return values.filter((value) => value !== undefined);
}

/** "0-3,8" as [0, 1, 2, 3, 8]; at most 4096 of them. */
export function parseCpuList(text: string): number[] {
  const cpus: number[] = [];
  for (const part of text.trim().split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (match === null) continue;
    const last = Number(match[2] ?? match[1]);
    for (let cpu = Number(match[1]); cpu <= last && cpus.length < 4096; cpu++) cpus.push(cpu);
  }
  return cpus;
}

/** A list that a person wrote: undefined where it is not one. */
export function readCpuList(text: string): number[] | undefined {
  const cpus = /^\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*$/.test(text) ? parseCpuList(text) : [];
  return cpus.length > 0 ? cpus : undefined;
}

/** [0, 1, 2, 3, 8] as "0-3,8". */
export function formatCpuList(cpus: readonly number[]): string {
  const runs: Array<[number, number]> = [];
  for (const cpu of cpus) {
    const run = runs.at(-1);
    if (run?.[1] === cpu - 1) run[1] = cpu;
    else runs.push([cpu, cpu]);
  }
  return runs.map(([first, last]) => first === last ? `${first}` : `${first}-${last}`).join(",");
}

function allowedCpus(read: ReadText): number[] {
  return parseCpuList(/^Cpus_allowed_list:\s*(\S+)/m.exec(read("/proc/self/status") ?? "")?.[1] ?? "");
}

function countCores(read: ReadText, cpus: number[]): number {
  const siblings = cpus.map((cpu) =>
    read(`/sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`)?.trim() ?? `cpu ${cpu}`
  );
  const physical = new Set(siblings).size || availableParallelism();
  const quota = Math.min(physical, ...cgroupValues(read, "cpu", (folder, version) => cpuQuota(read, folder, version)));
  return Math.max(1, Math.ceil(quota));
}

/** Reads the machine as it is now. */
export function readMachine(read: ReadText = readSystemText): Machine {
  const meminfo = read("/proc/meminfo");
  const totalBytes = (field(meminfo, "MemTotal") ?? 0) * 1024;
  const freeBytes = (field(meminfo, "MemAvailable") ?? field(meminfo, "MemFree") ?? 0) * 1024;
  const groups = cgroupValues(read, "memory", (folder, version) => memoryLimit(read, folder, version));
  const cpus = allowedCpus(read);
  return {
    cores: countCores(read, cpus),
    cpus,
    memoryBytes: Math.min(totalBytes, ...groups.map((group) => group.limitBytes)),
    availableBytes: Math.max(0, Math.min(freeBytes, ...groups.map((group) => group.limitBytes - group.usedBytes))),
  };
}
