import { performance as hostPerformance } from 'node:perf_hooks';
import timers from 'node:timers';
import { runInThisContext } from 'node:vm';
import { SignalTimer } from './signal-timer.js';

/*
 * The functions of the host, captured when the package is loaded. A test may replace timers with fake ones temporarily,
 * and a fake timer that is pending when the test ends never fires.
 */

/** Captured at import, because fake timers replace the method, not the object. */
export const performance = { now: hostPerformance.now.bind(hostPerformance) };

/** Nanoseconds on a clock that all threads of the process share. */
export const hrtime: () => bigint = process.hrtime.bigint.bind(process.hrtime);

const MILLISECOND = 1e6;
const OFFSET = Number(hrtime()) / MILLISECOND - performance.now();
/** Milliseconds on the clock of {@link hrtime}, but cheaper to read. */
export function sharedNow(): number {
  return performance.now() + OFFSET;
}

export const { setTimeout, clearTimeout } = timers;
const { setImmediate } = timers;
export const queueMicrotask: (run: () => void) => void = globalThis.queueMicrotask;
const SETTLED = Promise.resolve();

/**
 * Calls `run` from the microtask queue, where the stack is empty. Use it where nothing may throw (T1), since it calls
 * no function written in JavaScript, even if `Promise.prototype.then` was replaced. Pass both arguments, because V8
 * checks the stack if a call has fewer than declared. (`queueMicrotask` is written in JavaScript, and costs twice as
 * much.)
 */
export const defer: (run: () => void, unused: undefined) => unknown = Promise.prototype.then.bind(SETTLED);

/** Calls `run` after a turn of the event loop. If this throws on a stack overflow, `run` will not be called. */
export const afterTurn: (run: () => void) => unknown = setImmediate;

/** `Promise.resolve`, as safe from failure as {@link defer}. The value must not have a `then`. */
export const resolved: <T extends object>(value: T) => Promise<T> = Promise.resolve.bind(Promise);

/**
 * The host realm's `FinalizationRegistry`, even where a test runner evaluates the package in a context of `node:vm`. If
 * a thread ends just when a callback of such a context's registry is due, Node 20 aborts the process.
 */
export const HostFinalizationRegistry = ((): typeof FinalizationRegistry => {
  try {
    return runInThisContext('FinalizationRegistry') as typeof FinalizationRegistry;
  } catch {
    return FinalizationRegistry;
  }
})();

/** Opaque, because timers of some hosts are not objects. */
export type Timer = unknown;

const KIND = 'Timeout';
const LONG = 1_000_000;

/** Detects fake timers: Node counts only its own. */
function hasNodeTimers(): boolean {
  const count = (): number => process.getActiveResourcesInfo().filter((kind) => kind === KIND).length;
  const before = count();
  const probe = setTimeout(() => undefined, LONG);
  const after = count();
  clearTimeout(probe);
  return after > before;
}

const faked = !hasNodeTimers();

/** Starts a timer that keeps the event loop alive until {@link unrefTimer}. If this throws, no timer was started. */
export function startTimer(callback: () => void, delay: number): Timer {
  return faked ? new SignalTimer(callback, delay) : setTimeout(callback, delay);
}

/** Makes the timer keep the event loop alive, if the host's timers can. */
export function keepAlive(timer: Timer): void {
  (timer as { ref?: () => void } | undefined)?.ref?.();
}

/** Stops the timer from keeping the event loop alive. */
export function unrefTimer(timer: Timer): void {
  (timer as { unref?: () => void } | undefined)?.unref?.();
}

/** Cancels the timer. */
export function stopTimer(timer: Timer): void {
  if (timer instanceof SignalTimer) timer.stop();
  else clearTimeout(timer as NodeJS.Timeout | undefined);
}
