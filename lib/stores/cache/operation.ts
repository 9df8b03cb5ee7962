import { LONGEST_DELAY } from '../../common/alarm.js';
import { LeaseStoreError } from '../../lease/contract/errors.js';

/** Milliseconds: a timer is later than this only if the event loop was blocked. */
const BLOCKED = 5;

/** An operation on a cache, which may take several requests, within a time limit. */
export class Operation<T> {
  /** Whether the time limit has passed: the caller does not wait any more. */
  isOver = false;
  readonly #timeout: number;
  readonly #late: ((result: T) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `late`: called with a result that comes after the time limit. */
  constructor(timeout: number, late?: (result: T) => void) {
    this.#timeout = timeout;
    this.#late = late;
  }

  /** Rejects with a LeaseStoreError if that rejects, or takes too long. */
  run(operation: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#limit(this.#timeout, true, reject);
      operation().then(
        (result) => {
          clearTimeout(this.#timer);
          if (this.isOver) this.#late?.(result);
          else resolve(result);
        },
        (error: unknown) => {
          clearTimeout(this.#timer);
          const reason = error instanceof Error ? error.message : String(error);
          reject(new LeaseStoreError(`the cache failed: ${reason}`, error));
        },
      );
    });
  }

  /**
   * If the event loop was blocked meanwhile, no reply could arrive: then the operation gets as much more time, once, and at
   * most its limit.
   */
  #limit(milliseconds: number, mayExtend: boolean, reject: (error: LeaseStoreError) => void): void {
    if (milliseconds === Infinity) return;
    const due = performance.now() + milliseconds;
    const timedOut = (): void => {
      const late = performance.now() - due;
      if (mayExtend && late >= BLOCKED) {
        this.#limit(Math.min(late, this.#timeout), false, reject);
        return;
      }
      this.isOver = true;
      reject(new LeaseStoreError(`the cache has not answered within ${this.#timeout} ms`));
    };
    this.#timer = setTimeout(timedOut, Math.min(milliseconds, LONGEST_DELAY)).unref();
  }
}
