/** What the system gave an engine, for reports: the JSON of `surge bench`, and three lines of text. Prints nothing. */
import { formatBytes } from "../base/units.ts";
import type { Placement } from "../engine/client.ts";
import { formatCpuList } from "../plan/machine.ts";
import type { PagesReport } from "./bench_report.ts";

function pageReport({ mappedBytes, residentBytes, anonHugeBytes, fileHugeBytes, lockedBytes }: Placement["weights"]) {
  return {
    mapped_bytes: mappedBytes,
    resident_bytes: residentBytes,
    anon_huge_bytes: anonHugeBytes,
    file_huge_bytes: fileHugeBytes,
    locked_bytes: lockedBytes,
  };
}

export function pagesReport({ weights, arena, cpus, pinnedThreads }: Placement): PagesReport {
  return { weights: pageReport(weights), arena: pageReport(arena), cpus, pinned_threads: pinnedThreads };
}

function share(
  name: string,
  { mappedBytes, residentBytes, anonHugeBytes, fileHugeBytes, lockedBytes }: Placement["weights"],
): string {
  const huge = formatBytes(anonHugeBytes + fileHugeBytes);
  return `${name} ${formatBytes(residentBytes)} of ${formatBytes(mappedBytes)} in memory, ${huge} in huge pages, ${
    formatBytes(lockedBytes)
  } locked`;
}

export function describePlacement({ weights, arena, cpus, pinnedThreads }: Placement): string {
  const pinned = pinnedThreads === 0 ? "not pinned" : `${pinnedThreads} pinned`;
  return `${share("weights:", weights)}\n${share("buffers:", arena)}\nthreads: on CPUs ${
    formatCpuList(cpus)
  }, ${pinned}\n`;
}
