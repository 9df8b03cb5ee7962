import { LockError } from '../../common/errors.js';
import { clearTimeout, setTimeout } from '../../common/host.js';
import { LeaseStoreError, messageOf, storeDenied } from '../../lease/contract/errors.js';
import type { Awaited, Replies } from '../../lease/contract/replies.js';
import { EtcdFailure, isDenied } from './failure.js';

/** An operation of the store, which may take several requests, within one time limit. When that passes, they end. */
export class Operation {
  readonly #aborts = new Set<(reason: Error) => void>();
  #ended: EtcdFailure | undefined;
  /** The last failure that was not final. */
  lastFailure: EtcdFailure | undefined;

  /**
   * Rejects with a LeaseStoreError, or a LockError (ERR_LEASE_STORE_DENIED), if `body` rejects, or takes longer than `replies` allow. `late`: called with a result
   * that comes after that.
   */
  static run<T>(
    replies: Replies,
    body: (operation: Operation) => Promise<T>,
    late?: (result: T) => void,
  ): Promise<T> {
    const operation = new Operation();
    return new Promise((resolve, reject) => {
      const awaited: Awaited = replies.expect((error) => {
        operation.end(new EtcdFailure('there was no answer in time', undefined, true));
        reject(operation.#explained(error));
      });
      body(operation).then(
        (result) => {
          if (replies.arrived(awaited)) resolve(result);
          else late?.(result);
        },
        (error: unknown) => {
          if (replies.arrived(awaited)) reject(storeError(error));
        },
      );
    });
  }

  /** Ends its requests. */
  end(reason: EtcdFailure): void {
    this.#ended = reason;
    for (const abort of this.#aborts) abort(reason);
  }

  /** Undefined while it goes on. */
  get ended(): EtcdFailure | undefined {
    return this.#ended;
  }

  /** Calls `abort` if the operation ends, until the returned function is called. */
  onEnd(abort: (reason: Error) => void): () => void {
    this.#aborts.add(abort);
    return () => this.#aborts.delete(abort);
  }

  /** Resolves after so many milliseconds, or when the operation ends. */
  pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => done(), milliseconds);
      const done = (): void => {
        clearTimeout(timer);
        forget();
        resolve();
      };
      const forget = this.onEnd(done);
    });
  }

  #explained(error: LeaseStoreError): LeaseStoreError {
    const { lastFailure } = this;
    return lastFailure === undefined
      ? error
      : new LeaseStoreError(`${error.message}: ${lastFailure.message}`, lastFailure);
  }
}

function storeError(error: unknown): unknown {
  // Of the operation that has asked for a token.
  if (error instanceof LockError) return error;
  return isDenied(error)
    ? storeDenied('etcd', error)
    : new LeaseStoreError(`etcd failed: ${messageOf(error)}`, error);
}
