/** Time that only goes forward. Everything that measures takes a Clock, so that tests decide what time it is. */

/** Milliseconds since some fixed moment; never goes back. */
export type Clock = () => number;

export const monotonicClock: Clock = () => performance.now();
