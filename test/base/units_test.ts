import { expect, test } from "bun:test";
import { formatBytes, formatDuration, perSecond } from "../../src/base/units.ts";

test("bytes never show four digits before the point, nor 1024.0", () => {
  expect([0, 1, 1023, 1024, 1536, 1048575, 1048576, 20.3 * 1024 ** 3].map(formatBytes)).toEqual(
    ["0 B", "1 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "20.3 GiB"],
  );
});

test("durations never show 60 seconds or 60 minutes", () => {
  expect([0, 999, 999.9, 12_340, 59_949, 59_960, 245_000, 3_599_600, 7_380_000].map(formatDuration)).toEqual(
    ["0 ms", "999 ms", "1.0 s", "12.3 s", "59.9 s", "1 min 00 s", "4 min 05 s", "1 h 00 min", "2 h 03 min"],
  );
});

test("a rate over no time is 0 and not infinite", () => {
  expect(perSecond(5, 0)).toBe(0);
  expect(perSecond(5, 2000)).toBe(2.5);
});
