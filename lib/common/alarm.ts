import { keepAlive, letGo, startTimer, stopTimer, type Timer } from './host.js';

/** The longest delay that a timer can have, in milliseconds. With a longer one it fires at once. */
export const LONGEST_DELAY = 2 ** 31 - 1;

/**
 * One timer, set for the earliest time that was asked for. It rings once; then it can be set again. It may ring a
 * little early, or when nothing is due: its owner checks the clock.
 *
 * Setting a timer can throw (T1 in `engine/contract/engine.ts`). So a timer is recorded only once it is set: if a
 * method throws, it can be called again.
 */
export class Alarm {
  readonly #ring: () => void;
  readonly #longest: number;
  #keepsAlive: boolean;
  #timer: Timer;
  #due = Infinity;
  #delay = Infinity;
  readonly #onTimer = (): void => {
    this.#timer = undefined;
    this.#due = Infinity;
    this.#delay = Infinity;
    this.#ring();
  };

  /**
   * `keepsAlive`: whether a timer that is set keeps the event loop alive; see {@link keepAlive}. `longest`: the longest
   * delay of the timer, in milliseconds. An alarm that is due later rings after this time.
   */
  constructor(ring: () => void, keepsAlive: boolean, longest = LONGEST_DELAY) {
    this.#ring = ring;
    this.#keepsAlive = keepsAlive;
    this.#longest = longest;
  }

  /** When it is due, on the owner's clock; Infinity if it is not set. */
  get due(): number {
    return this.#due;
  }

  /** The milliseconds from when it was set until it is due; Infinity if it is not set. */
  get delay(): number {
    return this.#delay;
  }

  /** Sets it for `at`, which is `delay` milliseconds from now, unless it is due earlier. */
  setFor(at: number, delay: number): void {
    if (at >= this.#due) return;
    const old = this.#timer;
    // Rounded up to whole milliseconds, so that it does not ring early only to be set again.
    this.#timer = startTimer(this.#onTimer, Math.max(1, Math.ceil(Math.min(delay, this.#longest))));
    this.#due = at;
    this.#delay = delay;
    if (!this.#keepsAlive) letGo(this.#timer);
    // If this throws, the old timer is still set, and rings once more.
    if (old !== undefined) stopTimer(old);
  }

  /** Whether the timer that is set, and each later one, keeps the event loop alive. */
  keepAlive(keeps: boolean): void {
    if (keeps === this.#keepsAlive) return;
    if (keeps) keepAlive(this.#timer);
    else letGo(this.#timer);
    this.#keepsAlive = keeps;
  }
}
