import { setImmediate } from 'node:timers';

/*
 * What this engine uses of its host besides `../host.ts`, as it is when the package is imported: fake timers of test
 * runners stop what puts code off, and time.
 */

export const afterTurn: (callback: () => void) => void = setImmediate;
// eslint-disable-next-line @typescript-eslint/unbound-method -- It uses no `this`.
export const nextTick: (callback: () => void) => void = process.nextTick;
export const afterCode: (callback: () => void) => void = queueMicrotask;
/**
 * V8's interpreter checks the stack for the arguments of each call. Whoever has made this one can make calls of fewer
 * arguments, to functions that are V8's own, in the same function and not fail: those in a `catch`, such as of
 * `defer`.
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
