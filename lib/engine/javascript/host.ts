import { clearTimeout, setImmediate, setTimeout } from 'node:timers';
import { SignalTimer } from './signal-timer.js';

/**
 * What this engine uses of its host, as it is when the package is imported. Programs replace these later: fake timers of
 * test runners stop time, and those of jsdom or of an Electron renderer are numbers without `ref` and `unref`.
 */
export type Timer = unknown;

const LONG = 1_000_000;

/** Node counts the timers that are its own. */
function hasNodeTimers(): boolean {
  const count = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = count();
  const probe = setTimeout(() => undefined, LONG);
  const after = count();
  clearTimeout(probe);
  return after > before;
}

const faked = !hasNodeTimers();

/** It keeps the event loop alive. Where this throws, there is none. */
export function startTimer(callback: () => void, milliseconds: number): Timer {
  return faked ? new SignalTimer(callback, milliseconds) : setTimeout(callback, milliseconds);
}

export function stopTimer(timer: Timer): void {
  if (timer instanceof SignalTimer) timer.stop();
  else clearTimeout(timer as NodeJS.Timeout);
}

export const afterTurn: (callback: () => void) => void = setImmediate;
// eslint-disable-next-line @typescript-eslint/unbound-method -- It uses no `this`.
export const nextTick: (callback: () => void) => void = process.nextTick;
export const afterCode: (callback: () => void) => void = queueMicrotask;
/**
 * Calls `run` from the microtask queue, where the stack is empty. For where nothing may throw: it calls no function in
 * JavaScript, and is to be passed both arguments, as V8 checks the stack where there are fewer than declared.
 */
export const defer: (run: () => void, unused: undefined) => unknown = Promise.prototype.then.bind(
  Promise.resolve(),
);
/**
 * V8's interpreter checks the stack for the arguments of each call. Whoever has made this one can make calls of fewer
 * arguments, to functions that are V8's own, in the same function and not fail: those in a `catch`, such as of
 * {@link defer}.
 */
export const makeRoom: (a: 0, b: 0, c: 0, d: 0, e: 0, f: 0) => unknown = Math.max;
/** Milliseconds from the start of this thread. */
export const clock: () => number = performance.now.bind(performance);

const [seconds, nanoseconds] = process.hrtime();
const OFFSET = seconds * 1000 + nanoseconds / 1e6 - clock();

/** Milliseconds on a clock that all threads of the process share, modulo 2^32, and never 0: for words. */
export function stamp(): number {
  return (clock() + OFFSET) | 1;
}

/** The timer keeps the event loop alive from now on, where it can. */
export function keepAlive(timer: Timer): void {
  (timer as { ref?: () => void } | undefined)?.ref?.();
}

export function letGo(timer: Timer): void {
  (timer as { unref?: () => void } | undefined)?.unref?.();
}
