import { performance as hostPerformance } from 'node:perf_hooks';
import timers from 'node:timers';
import { runInThisContext } from 'node:vm';
import { MessageChannel, type MessagePort } from 'node:worker_threads';

/*
 * The functions of the host, captured when the package is loaded. A test may replace timers with fake ones temporarily,
 * and a fake timer that is pending when the test ends never fires.
 */

/** Captured at import, because fake timers replace the method, not the object. */
export const performance = { now: hostPerformance.now.bind(hostPerformance) };

/** Nanoseconds on a clock that all threads of the process share. */
export const hrtime: () => bigint = process.hrtime.bigint.bind(process.hrtime);

/**
 * Milliseconds on the clock of {@link hrtime}, which is the same in all threads. `performance.now()` differs
 * between threads, because each thread's clock starts with the thread.
 */
export function sharedNow(): number {
  return Number(hrtime()) / 1e6;
}

export const { setTimeout, clearTimeout } = timers;
const { setImmediate } = timers;
export const queueMicrotask: (run: () => void) => void = globalThis.queueMicrotask;
const SETTLED = Promise.resolve();

/**
 * Calls `run` from the microtask queue, where the stack is empty. Use `defer` where nothing may throw (T1):
 * it calls no function written in JavaScript, even if `Promise.prototype.then` was replaced. Pass both
 * arguments, because V8 checks the stack if a call has fewer arguments than declared. (`queueMicrotask` is
 * written in JavaScript, and costs twice as much.)
 */
export const defer: (run: () => void, unused: undefined) => unknown = Promise.prototype.then.bind(SETTLED);

/** Calls `run` after a turn of the event loop. If this throws, `run` will not be called. */
export const afterTurn: (run: () => void) => unknown = setImmediate;

/**
 * `Promise.resolve`. It is as unlikely to throw as {@link defer}. The value must not have a property `then`.
 */
export const resolved: <T extends object>(value: T) => Promise<T> = Promise.resolve.bind(Promise);

/**
 * The host realm's `FinalizationRegistry`. A test runner may evaluate the package in a context of `node:vm`,
 * which has a separate `FinalizationRegistry`. If a thread ends when a callback of a registry in such a
 * context is due, Node 20 aborts the process.
 */
export const HostFinalizationRegistry = ((): typeof FinalizationRegistry => {
  try {
    return runInThisContext('FinalizationRegistry') as typeof FinalizationRegistry;
  } catch {
    return FinalizationRegistry;
  }
})();

/** A port that keeps the event loop alive while at least one {@link SignalTimer} must do so. */
let keeper: MessagePort | undefined;
let keeping = 0;

/**
 * A timer that is used if the package was loaded while timers were faked. It uses `AbortSignal.timeout`,
 * which fake timers do not replace.
 */
class SignalTimer {
  readonly #signal: AbortSignal;
  readonly #callback: () => void;
  #keeps = false;
  readonly #onAbort = (): void => {
    this.unref();
    this.#callback();
  };

  constructor(callback: () => void, milliseconds: number) {
    this.#callback = callback;
    this.#signal = AbortSignal.timeout(milliseconds);
    this.#signal.addEventListener('abort', this.#onAbort, { once: true });
    this.ref();
  }

  ref(): void {
    if (this.#keeps) return;
    this.#keeps = true;
    keeper ??= new MessageChannel().port1;
    if (++keeping === 1) keeper.ref();
  }

  unref(): void {
    if (!this.#keeps) return;
    this.#keeps = false;
    if (--keeping === 0) keeper?.unref();
  }

  stop(): void {
    this.unref();
    this.#signal.removeEventListener('abort', this.#onAbort);
  }
}

/** A timer. The type is opaque, because the timers of some hosts are not objects. */
export type Timer = unknown;

const KIND = 'Timeout';
const LONG = 1_000_000;

/** False if timers are faked, because Node lists only its own timers as active resources. */
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

/** Makes the timer keep the event loop alive, if the host's timers support this. */
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
