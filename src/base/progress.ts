/**
 * A loading bar on one line of a terminal, with rate and time left. It owns that line between start and end, and nothing else.
 * Nothing is shown for what takes less than a second, and nothing at all where the stream is not a terminal.
 */
import { type Clock, monotonicClock } from "./clock.ts";
import { formatBytes, formatDuration, perSecond } from "./units.ts";

const QUIET_MS = 1000;
const REDRAW_MS = 100;
const BAR_CELLS = 24;

export interface ProgressOptions {
  label: string;
  isTty: boolean;
  write: (text: string) => void;
  clock?: Clock;
}

export interface Progress {
  update(doneBytes: number, totalBytes: number): void;
  /** Removes the bar. Calling it twice is fine. */
  end(): void;
}

/** One line without control characters: label, bar, share, bytes, rate, time left. */
export function progressLine(
  label: string,
  state: { doneBytes: number; totalBytes: number; elapsedMs: number },
): string {
  const { doneBytes, totalBytes, elapsedMs } = state;
  const share = totalBytes > 0 ? Math.min(1, doneBytes / totalBytes) : 0;
  const filled = Math.floor(share * BAR_CELLS);
  const bar = "█".repeat(filled) + "░".repeat(BAR_CELLS - filled);
  const rate = perSecond(doneBytes, elapsedMs);
  const left = rate > 0 ? ` ${formatDuration((Math.max(0, totalBytes - doneBytes) / rate) * 1000)} left` : "";
  const amounts = `${formatBytes(doneBytes)} of ${formatBytes(totalBytes)} ${formatBytes(rate)}/s`;
  return `${label} ${bar} ${Math.floor(share * 100)}% ${amounts}${left}`;
}

export function startProgress(options: ProgressOptions): Progress {
  const clock = options.clock ?? monotonicClock;
  const startMs = clock();
  let drawnMs = -Infinity;
  let visible = false;
  return {
    update(doneBytes, totalBytes) {
      const nowMs = clock();
      if (!options.isTty || nowMs - startMs < QUIET_MS || nowMs - drawnMs < REDRAW_MS) return;
      drawnMs = nowMs;
      visible = true;
      options.write(`\r\x1b[K${progressLine(options.label, { doneBytes, totalBytes, elapsedMs: nowMs - startMs })}`);
    },
    end() {
      if (visible) options.write("\r\x1b[K");
      visible = false;
    },
  };
}
