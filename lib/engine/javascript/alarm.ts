import { keepAlive, letGo, startTimer, stopTimer, type Timer } from '../../common/host.js';

/** One timer, which is set to the earliest time that it was asked for. */
export class Alarm {
  readonly #ring: () => void;
  #timer: Timer = undefined;
  #at = Infinity;
  readonly #onTimer = (): void => {
    this.#timer = undefined;
    this.#at = Infinity;
    this.#ring();
  };

  constructor(ring: () => void) {
    this.#ring = ring;
  }

  /** Both on the clock of `clock()`. It keeps the event loop alive. */
  setFor(at: number, now: number): void {
    const old = this.#timer;
    if (old !== undefined && this.#at <= at) {
      keepAlive(old);
      return;
    }
    // Noted when it is set, and not before. The old one may still be set then, and rings once more.
    this.#timer = startTimer(this.#onTimer, Math.max(1, Math.ceil(at - now)));
    this.#at = at;
    if (old !== undefined) stopTimer(old);
  }

  /** Lets the event loop end. */
  letGo(): void {
    letGo(this.#timer);
  }
}
