import { performance, sharedNow } from './host.js';

const COMPARISONS = 16;

let read = sharedNow;
let counting = false;
/** {@link localNow} minus {@link elapsed}. Undefined until a time is converted. */
let offset: number | undefined;

/**
 * Milliseconds on a monotonic clock with an arbitrary start. Threads of one process read the same clock if {@link
 * countsSuspension} is the same in all of them.
 */
export function elapsed(): number {
  return read();
}

/**
 * Whether {@link elapsed} keeps counting while the machine is suspended. On most platforms `performance.now()` does
 * not.
 */
export function countsSuspension(): boolean {
  return counting;
}

/**
 * The clock of {@link elapsed}, shifted so that it equals `performance.now()` until the machine is suspended.
 */
export function localNow(): number {
  return counting ? toLocal(read()) : performance.now();
}

/**
 * Milliseconds on the clock of timers, which stops while the machine is suspended. Use this clock for time
 * limits of requests, turns and reports. Never use this clock for the deadline of a lease, because the
 * store's clock keeps counting.
 */
export function timerNow(): number {
  return performance.now();
}

/** Converts a time of {@link elapsed} to a time of {@link localNow}. The result is never too late. */
export function toLocal(time: number): number {
  return time + (offset ??= offsetOf(read));
}

/** The inverse of {@link toLocal}. The result is never too early. */
export function fromLocal(time: number): number {
  return time - (offset ??= offsetOf(read));
}

/** Makes {@link elapsed} read `clock`, which must keep counting while the machine is suspended. */
export function setClock(clock: () => number): void {
  if (counting) return;
  read = clock;
  counting = true;
  offset = offsetOf(read);
}

/**
 * The offset, in milliseconds, from another clock to `performance.now()`. Both clocks must run at the same
 * rate. Each comparison underestimates the offset by the time between its two readings, so the largest result
 * is the closest. A time of the other clock plus this offset is never later than the true time.
 */
export function offsetOf(clock: () => number): number {
  let largest = -Infinity;
  for (let i = 0; i < COMPARISONS; i++) largest = Math.max(largest, performance.now() - clock());
  return largest;
}
