/** The SurgeError an action throws, for looking at its kind and words; anything else it does fails the test. */
import { SurgeError } from "../../src/base/errors.ts";

export function thrownBy(action: () => unknown): SurgeError {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof SurgeError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was thrown");
}
