import { LeaseStoreError } from '../../lease/contract/errors.js';
import type { Awaited, Replies } from '../../lease/contract/replies.js';

/** An operation on a cache, which may take several requests, within the time limit of `replies`. */
export class Operation<T> {
  readonly #replies: Replies;
  readonly #late: ((result: T) => void) | undefined;
  #awaited: Awaited | undefined;

  /** `late`: called with a result that comes after the time limit. */
  constructor(replies: Replies, late?: (result: T) => void) {
    this.#replies = replies;
    this.#late = late;
  }

  /** Whether the time limit has passed: the caller does not wait any more. */
  get isOver(): boolean {
    return this.#awaited?.isLate === true;
  }

  /** Rejects with a LeaseStoreError if that rejects, or takes too long. */
  run(operation: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const awaited = this.#replies.expect(reject);
      this.#awaited = awaited;
      operation().then(
        (result) => {
          if (this.#replies.arrived(awaited)) resolve(result);
          else this.#late?.(result);
        },
        (error: unknown) => {
          this.#replies.arrived(awaited);
          const reason = error instanceof Error ? error.message : String(error);
          reject(new LeaseStoreError(`the cache failed: ${reason}`, error));
        },
      );
    });
  }
}
