import { expect, test } from "bun:test";
import { keyDifference, type KeySource, MachineKey, readMachineKey } from "../../src/plan/machine_key.ts";

const CPU = (n: number) =>
  `processor\t: ${n}\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R) Processor\nstepping\t: 2\n` +
  "flags\t\t: fpu avx2 avx512f avx512_vnni\n\n";
const FILES: Record<string, string> = {
  "/proc/cpuinfo": CPU(0) + CPU(1),
  "/proc/meminfo": "MemTotal:       16777216 kB\nMemFree:         1048576 kB\n",
  "/etc/machine-id": "3d1219c7c4c5404aaa1f6d2a48adfda4\n",
  "/sys/class/net/eth0/device/uevent": "DRIVER=e1000\n",
  "/sys/class/net/eth0/address": "00:1b:21:00:00:01\n",
  "/sys/class/net/eth1/device/uevent": "DRIVER=e1000\n",
  "/sys/class/net/eth1/address": "00:1b:21:00:00:02\n",
  "/sys/class/net/br0/address": "3e:9e:5f:46:04:c9\n",
  "/sys/class/net/lo/address": "00:00:00:00:00:00\n",
};

function source(changes: Record<string, string | undefined> = {}): KeySource {
  const files: Record<string, string | undefined> = { ...FILES, ...changes };
  return {
    read: (path) => files[path],
    list: (path) => {
      const below = Object.keys(files).filter((name) => name.startsWith(`${path}/`) && files[name] !== undefined);
      return [...new Set(below.map((name) => name.slice(path.length + 1).split("/")[0]!))];
    },
  };
}

const HERE = readMachineKey(source());

function differenceAfter(changes: Record<string, string | undefined>): string | undefined {
  return keyDifference(HERE, readMachineKey(source(changes)));
}

test("facts of processor and memory are read; ids and addresses are kept as digests only", () => {
  expect(HERE).toMatchObject({
    processor: "Intel(R) Xeon(R) Processor, model 6/207/2",
    processors: 2,
    memory_bytes: 16 * 2 ** 30,
    instructions: ["avx2", "avx512f", "avx512_vnni"],
  });
  expect(HERE.adapters).toHaveLength(2);
  expect(JSON.stringify(HERE)).not.toMatch(/3d1219|00:1b/);
  expect(keyDifference(HERE, readMachineKey(source()))).toBeUndefined();
});

test.each<[string, Record<string, string | undefined>, string]>([
  ["a newer processor", { "/proc/cpuinfo": (CPU(0) + CPU(1)).replaceAll("207", "208") }, "processor Intel"],
  ["more processors", { "/proc/cpuinfo": CPU(0) + CPU(1) + CPU(2) }, "processors 2, here 3"],
  ["more memory", { "/proc/meminfo": "MemTotal: 33554432 kB\n" }, "memory 16.0 GiB, here 32.0 GiB"],
  ["fewer instructions", { "/proc/cpuinfo": (CPU(0) + CPU(1)).replaceAll(" avx512_vnni", "") }, "instructions avx2"],
  ["another installation", { "/etc/machine-id": "4".repeat(32) }, "another /etc/machine-id"],
  ["a copy of the disk in a twin", {
    "/sys/class/net/eth0/address": "00:1b:21:00:00:03\n",
    "/sys/class/net/eth1/address": "00:1b:21:00:00:04\n",
  }, "none of its network adapters is here"],
])("%s is another machine", (_what, changes, words) => {
  expect(differenceAfter(changes)).toStartWith(words);
});

test.each<[string, Record<string, string | undefined>]>([
  ["a kernel that takes some memory more", { "/proc/meminfo": "MemTotal: 16700000 kB\n" }],
  ["an adapter that was exchanged", { "/sys/class/net/eth1/address": "00:1b:21:00:00:09\n" }],
  ["a bridge that went", { "/sys/class/net/br0/address": undefined }],
  ["no view of the network", {
    "/sys/class/net/eth0/device/uevent": "",
    "/sys/class/net/eth0/address": undefined,
    "/sys/class/net/eth1/address": undefined,
  }],
  ["no machine id", { "/etc/machine-id": undefined }],
  ["a machine id that systemd has yet to write", { "/etc/machine-id": "uninitialized\n" }],
])("%s is the same machine", (_what, changes) => {
  expect(differenceAfter(changes)).toBeUndefined();
});

test("arm64 has implementer and part instead of a name", () => {
  const text =
    "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd0c\n";
  expect(readMachineKey(source({ "/proc/cpuinfo": text }))).toMatchObject({
    processor: "processor, part 0x41/0xd0c/0x1",
    instructions: ["asimd", "asimddp", "i8mm"],
  });
});

test("a system that tells nothing or nonsense still gives a key that a profile can hold", () => {
  for (const read of [() => undefined, () => "\x1b[2J\n: \u{1f600}\nmodel name : \x1b]0;x\x07é\n"]) {
    expect(MachineKey.safeParse(readMachineKey({ read, list: () => ["eth0"] })).success).toBe(true);
  }
  expect(MachineKey.safeParse(readMachineKey()).success).toBe(true);
});
