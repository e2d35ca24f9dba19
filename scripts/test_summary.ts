/** Sums the results of a test run to its last line. Arguments: results folder, exit codes of ctest and of bun test. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/** Totals of "N passed, N failed, N skipped" lines (C) and of junit's root element (TypeScript). */
export function sumCounts(cLines: string, junit: string): Counts {
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  for (const match of cLines.matchAll(/^(\d+) passed, (\d+) failed, (\d+) skipped$/gm)) {
    total.passed += Number(match[1]);
    total.failed += Number(match[2]);
    total.skipped += Number(match[3]);
  }
  const root = /<testsuites\b[^>]*>/.exec(junit)?.[0] ?? "";
  const attribute = (name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(root)?.[1] ?? 0);
  const failed = attribute("failures") + attribute("errors");
  total.failed += failed;
  total.skipped += attribute("skipped");
  total.passed += attribute("tests") - failed - attribute("skipped");
  return total;
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

if (import.meta.main) {
  const [folder = ".", ...codes] = process.argv.slice(2);
  const counts = sumCounts(read(join(folder, "c.txt")), read(join(folder, "bun.xml")));
  /* A runner that crashed has failed even where it counted nothing. */
  if (counts.failed === 0 && codes.some((code) => code !== "0")) counts.failed = 1;
  process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
  process.exit(counts.failed > 0 || counts.passed === 0 ? 1 : 0);
}
