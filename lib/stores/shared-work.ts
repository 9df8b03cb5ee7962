import type { TimeLimit } from './requests.js';

/**
 * Work that the operations of a store share, such as creating its tables. Operations that need it at the same time wait
 * for one attempt. If the attempt fails, or the server has not answered it within the time limit of an operation that
 * waits for it, the next operation starts a new attempt. So an answer that was lost delays only these operations.
 */
export class SharedWork {
  readonly #work: () => Promise<unknown>;
  readonly #isKept: boolean;
  #attempt: Promise<unknown> | undefined;

  /** `isKept`: true if the work is done only once. Otherwise each call does it again, unless an attempt is running. */
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
