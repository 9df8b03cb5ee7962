import { offsetOf } from './clock-offset.js';
import { hrtime, performance } from './host.js';

let read = monotonic;
let counting = false;
/** From {@link elapsed} to {@link localNow}; undefined until one of them is converted. */
let offset: number | undefined;

/**
 * Milliseconds since some moment, on a clock that never goes back. Threads of one process read the same clock if
 * {@link countsSuspension} is the same in them.
 */
export function elapsed(): number {
  return read();
}

/** Whether {@link elapsed} counts while the machine is suspended. `performance.now()` does not, on most platforms. */
export function countsSuspension(): boolean {
  return counting;
}

/** The same clock, counted like `performance.now()`, which it equals until the machine is suspended. */
export function localNow(): number {
  return counting ? toLocal(read()) : performance.now();
}

/**
 * Milliseconds as timers count them: the clock stands still while the machine is suspended. For the time limits of requests,
 * turns and reports. Never for the deadline of a lease, which the store's clock continues to count.
 */
export function timerNow(): number {
  return performance.now();
}

/** A time of {@link elapsed} as a time of {@link localNow}, and never later than that. */
export function toLocal(time: number): number {
  return time + (offset ??= offsetOf(read));
}

/** The opposite: never earlier. */
export function fromLocal(time: number): number {
  return time - (offset ??= offsetOf(read));
}

/** From now on {@link elapsed} reads this clock, which counts while the machine is suspended. */
export function setClock(clock: () => number): void {
  if (counting) return;
  read = clock;
  counting = true;
  offset = offsetOf(read);
}

/** All threads have the same one, unlike `performance.now()`, which counts from the start of its thread. */
function monotonic(): number {
  return Number(hrtime()) / 1e6;
}
