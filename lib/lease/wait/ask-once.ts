import { awaitAbort, forgetAbort } from '../../common/abort.js';
import type { Lease } from '../hold/lease.js';

/** What an acquisition of one attempt asks. */
export interface Asked {
  /** Asks once. True if there is a lease and `take` took it; a lease that it refuses is released. Rejects if the store fails. */
  ask(take: (lease: Lease) => boolean): Promise<boolean>;
  /** The acquisition has ended: nobody will ask again. */
  end(): void;
}

/**
 * An acquisition of one attempt. Undefined if another owner has the key. Rejects if the store fails, and at once if the
 * signal is aborted.
 */
export function askOnce(attempts: Asked, signal: AbortSignal | undefined): Promise<Lease | undefined> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    let aborted = false;
    const waiting = {
      abort(reason: unknown): void {
        aborted = true;
        reject(reason);
      },
    };
    if (signal) awaitAbort(signal, waiting);
    const answered = (lease: Lease | undefined): void => {
      if (signal) forgetAbort(signal, waiting);
      resolve(lease);
    };
    const take = (lease: Lease): boolean => {
      if (!aborted) answered(lease);
      return !aborted;
    };
    attempts
      .ask(take)
      .then(
        (taken) => {
          if (!taken) answered(undefined);
        },
        (error: unknown) => {
          if (signal) forgetAbort(signal, waiting);
          reject(error);
        },
      )
      .finally(() => attempts.end());
  });
}
