import type { TimeLimit } from './requests.js';

/**
 * Work that the operations of a store share, such as creating the store's tables. Operations that need the
 * work at the same time wait for one shared attempt. If that attempt fails, or if a waiting operation reaches
 * its time limit, the next operation starts a new attempt. So a lost answer delays only operations that are
 * already waiting.
 */
export class SharedWork {
  readonly #work: () => Promise<unknown>;
  readonly #isKept: boolean;
  #attempt: Promise<unknown> | undefined;

  /**
   * `isKept`: true if the work is done only once. If false, each call repeats the work, or joins a running
   * attempt.
   */
  constructor(work: () => Promise<unknown>, isKept: boolean) {
    this.#work = work;
    this.#isKept = isKept;
  }

  /** Resolves when the work is done. Rejects with the error of the attempt. */
  async done(limit: TimeLimit): Promise<void> {
    const attempt = (this.#attempt ??= this.#work());
    const forget = (): void => {
      if (this.#attempt === attempt) this.#attempt = undefined;
    };
    const stopListening = limit.onLate?.(forget);
    try {
      await attempt;
      if (!this.#isKept) forget();
    } catch (error) {
      forget();
      throw error;
    } finally {
      stopListening?.();
    }
  }
}
