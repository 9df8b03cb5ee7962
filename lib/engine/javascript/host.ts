import { setImmediate } from 'node:timers';

/*
 * What this engine uses of its host besides what is in `../../common/host.ts`, bound when the package is imported: fake
 * timers of test runners stop the clock, and what runs code later.
 */

export const afterTurn: (callback: () => void) => void = setImmediate;
// eslint-disable-next-line @typescript-eslint/unbound-method -- It uses no `this`.
export const nextTick: (callback: () => void) => void = process.nextTick;
export const afterCode: (callback: () => void) => void = queueMicrotask;
/** A kilobyte of arguments. */
const ROOM = new Array<undefined>(128).fill(undefined);

/**
 * Throws a RangeError where the stack has no more room than this. A function that has made this call can then call
 * functions that are V8's own, and these do not fail: in a `catch`, such as `defer`. V8 checks the stack before it spreads
 * the arguments, also in code that it has optimized; nothing is called with them.
 */
export const makeRoom: () => unknown = Reflect.apply.bind(undefined, Function.prototype, undefined, ROOM);
/** Milliseconds from the start of this thread. */
export const clock: () => number = performance.now.bind(performance);

const [seconds, nanoseconds] = process.hrtime();
const OFFSET = seconds * 1000 + nanoseconds / 1e6 - clock();

/** Milliseconds on a clock that all threads of the process share, modulo 2^32, and never 0: for words. */
export function stamp(): number {
  return (clock() + OFFSET) | 1;
}
