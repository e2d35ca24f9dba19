import { expect, test } from "bun:test";
import { formatCpuList, parseCpuList, readCpuList, readMachine } from "../../src/plan/machine.ts";

const GIB = 1024 ** 3;
const MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n";
const FOUR_CPUS: Record<string, string> = {
  "/proc/self/status": "Name:\tsurge\nCpus_allowed_list:\t0-3\n",
  "/proc/meminfo": MEMINFO,
  "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0,2\n",
  "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "1,3\n",
  "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list": "0,2\n",
  "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list": "1,3\n",
};

function machine(files: Record<string, string>) {
  return readMachine((path) => ({ ...FOUR_CPUS, ...files })[path]);
}

test("without control groups: available memory and physical cores, hyper-threads counted once", () => {
  expect(machine({})).toEqual({ cores: 2, cpus: [0, 1, 2, 3], memoryBytes: 16 * GIB, availableBytes: 8 * GIB });
});

test("version 2: an ancestor's limit counts, and page cache is not use", () => {
  const found = machine({
    "/proc/self/cgroup": "0::/app.slice/surge\n",
    "/sys/fs/cgroup/app.slice/surge/memory.max": "max\n",
    "/sys/fs/cgroup/app.slice/memory.max": `${4 * GIB}\n`,
    "/sys/fs/cgroup/app.slice/memory.current": `${3 * GIB}\n`,
    "/sys/fs/cgroup/app.slice/memory.stat": `anon ${GIB}\nactive_file ${GIB}\ninactive_file ${GIB}\n`,
    "/sys/fs/cgroup/app.slice/cpu.max": "50000 100000\n",
  });
  expect(found).toEqual({ cores: 1, cpus: [0, 1, 2, 3], memoryBytes: 4 * GIB, availableBytes: 3 * GIB });
});

test("version 1: limits of each controller; the number that means no limit is none", () => {
  const found = machine({
    "/proc/self/cgroup": "5:memory:/box\n3:cpu,cpuacct:/box\n0::/\n",
    "/sys/fs/cgroup/memory/box/memory.limit_in_bytes": `${2 * GIB}\n`,
    "/sys/fs/cgroup/memory/box/memory.usage_in_bytes": `${GIB}\n`,
    "/sys/fs/cgroup/memory/box/memory.stat": `active_file 1\ntotal_active_file ${GIB / 4}\ntotal_inactive_file ${
      GIB / 4
    }\n`,
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": `${9 * GIB}\n`,
    "/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1\n",
    "/sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
  });
  expect(found).toEqual({ cores: 2, cpus: [0, 1, 2, 3], memoryBytes: 2 * GIB, availableBytes: 1.5 * GIB });
});

test("a group over its limit has nothing left, not less", () => {
  const found = machine({
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/memory.max": `${GIB}\n`,
    "/sys/fs/cgroup/memory.current": `${2 * GIB}\n`,
  });
  expect(found.availableBytes).toBe(0);
});

test("cpu lists are read in every form and bounded", () => {
  expect(parseCpuList("0-2,8,10-11\n")).toEqual([0, 1, 2, 8, 10, 11]);
  expect(parseCpuList("")).toEqual([]);
  expect(parseCpuList("0-99999999")).toHaveLength(4096);
});

test("a list that a person writes is read whole or not at all, and written back the same", () => {
  for (const text of ["0", "0-3", "0-3,8", "5,7,9-10"]) expect(formatCpuList(readCpuList(text)!)).toBe(text);
  for (const text of ["", ",", "0,", "a", "0-", "-1", "3-1", "0 1", "0x1", "1e3"]) {
    expect(readCpuList(text)).toBeUndefined();
  }
});

test("this machine has a core and memory", () => {
  const here = readMachine();
  expect(here.cores).toBeGreaterThanOrEqual(1);
  expect(here.availableBytes).toBeGreaterThan(0);
  expect(here.availableBytes).toBeLessThanOrEqual(here.memoryBytes);
});
