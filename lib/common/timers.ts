import {
  clearTimeout,
  keepAlive,
  setTimeout,
  startTimer,
  stopTimer,
  unrefTimer,
  type Timer,
} from './host.js';

/**
 * The longest delay of a timer, in milliseconds. If the delay is longer, Node fires the timer immediately.
 */
export const LONGEST_DELAY = 2 ** 31 - 1;

/**
 * A single timer, set for the earliest requested time. It fires once and can then be set again. It may fire a
 * little early, or when nothing is due, so its owner checks the clock.
 *
 * Setting a timer can throw (T1 in `engine/contract/engine.ts`). So a timer is recorded only after it was
 * set, and if a method throws, it can be called again.
 */
export class Alarm {
  readonly #fire: () => void;
  readonly #longest: number;
  #keepsAlive: boolean;
  #timer: Timer;
  #due = Infinity;
  #delay = Infinity;
  readonly #onTimer = (): void => {
    this.#timer = undefined;
    this.#due = Infinity;
    this.#delay = Infinity;
    this.#fire();
  };

  /**
   * `keepsAlive`: whether a set timer keeps the event loop alive; see {@link keepAlive}. `longest`: the
   * longest delay of the timer, in milliseconds. If the alarm is due later, the timer fires after `longest`
   * milliseconds, and the owner sets the alarm again.
   */
  constructor(fire: () => void, keepsAlive: boolean, longest = LONGEST_DELAY) {
    this.#fire = fire;
    this.#keepsAlive = keepsAlive;
    this.#longest = longest;
  }

  /** The time when the timer is due, on the owner's clock. Infinity if the timer is not set. */
  get due(): number {
    return this.#due;
  }

  /** The delay with which the timer was set, in milliseconds. Infinity if the timer is not set. */
  get delay(): number {
    return this.#delay;
  }

  /**
   * Sets the timer for the time `at`, which is `delay` milliseconds from now, unless the timer is due
   * earlier.
   */
  setFor(at: number, delay: number): void {
    if (at >= this.#due) return;
    const old = this.#timer;
    // The delay is rounded up to whole milliseconds. Otherwise the timer could fire early and would have to
    // be set again.
    this.#timer = startTimer(this.#onTimer, Math.max(1, Math.ceil(Math.min(delay, this.#longest))));
    this.#due = at;
    this.#delay = delay;
    if (!this.#keepsAlive) unrefTimer(this.#timer);
    // If this throws, the old timer stays set, and fires needlessly.
    if (old !== undefined) stopTimer(old);
  }

  /** Stops the timer. It can be set again. */
  stop(): void {
    if (this.#timer !== undefined) stopTimer(this.#timer);
    this.#timer = undefined;
    this.#due = this.#delay = Infinity;
  }

  /** Sets whether the current timer, and each later one, keeps the event loop alive. */
  keepAlive(keeps: boolean): void {
    if (keeps === this.#keepsAlive) return;
    if (keeps) keepAlive(this.#timer);
    else unrefTimer(this.#timer);
    this.#keepsAlive = keeps;
  }
}

/**
 * Resolves after this many milliseconds, or when the signal is aborted. Until then, `keepsAlive` decides
 * whether the timer keeps the process alive.
 */
export function pause(milliseconds: number, signal?: AbortSignal, keepsAlive = true): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(milliseconds, LONGEST_DELAY));
    if (!keepsAlive) unrefTimer(timer);
    signal?.addEventListener('abort', end);
  });
}

/** Resolves once the promise has settled, or after this many milliseconds. The promise must not reject. */
export async function settledWithin(milliseconds: number, promise: Promise<unknown>): Promise<void> {
  const settled = new AbortController();
  await Promise.race([promise, pause(milliseconds, settled.signal)]);
  settled.abort();
}
