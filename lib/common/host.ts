import { performance as hostPerformance } from 'node:perf_hooks';
import * as timers from 'node:timers';
import { SignalTimer } from './signal-timer.js';

/*
 * What the package needs of its host, as it is when the package is loaded: a test may put fake timers in its place for a
 * while, and what a fake timer was to do is lost when the test ends.
 */

export const performance = hostPerformance;

const { setTimeout, clearTimeout } = timers;
const SETTLED = Promise.resolve();

/**
 * Calls `run` from the microtask queue, where the stack is empty. For where nothing may throw (T1): no function in
 * JavaScript is called, whoever has replaced `Promise.prototype.then`, and both arguments are passed because V8 checks
 * the stack where there are fewer than declared. (`queueMicrotask` is a function in JavaScript, and costs twice as much.)
 */
export const defer: (run: () => void, unused: undefined) => unknown = Promise.prototype.then.bind(SETTLED);

/** `Promise.resolve`; it can fail as little as {@link defer}. What is passed must not have a `then`. */
export const resolved: <T extends object>(value: T) => Promise<T> = Promise.resolve.bind(Promise);

/** Opaque: not every host's timers are objects. */
export type Timer = unknown;

const KIND = 'Timeout';
const LONG = 1_000_000;

/** Node counts the timers that are its own. */
function hasNodeTimers(): boolean {
  const count = (): number => process.getActiveResourcesInfo().filter((kind) => kind === KIND).length;
  const before = count();
  const probe = setTimeout(() => undefined, LONG);
  const after = count();
  clearTimeout(probe);
  return after > before;
}

const faked = !hasNodeTimers();

/** A timer that keeps the event loop alive, where {@link letGo} does not end that. Where this throws, there is none. */
export function startTimer(callback: () => void, delay: number): Timer {
  return faked ? new SignalTimer(callback, delay) : setTimeout(callback, delay);
}

/** The timer keeps the event loop alive from now on, where it can. */
export function keepAlive(timer: Timer): void {
  (timer as { ref?: () => void } | undefined)?.ref?.();
}

/** It does not. */
export function letGo(timer: Timer): void {
  (timer as { unref?: () => void } | undefined)?.unref?.();
}

export function stopTimer(timer: Timer): void {
  if (timer instanceof SignalTimer) timer.stop();
  else clearTimeout(timer as NodeJS.Timeout | undefined);
}
