import type { AsyncWaiter, LockTable, Outcome } from './engine/engine.js';
import { ABORTS_CELL, DEADLOCKS_CELL, TIMEOUTS_CELL } from './engine/layout.js';
import { DeadlockError, LockError, LockTimeoutError } from './errors.js';
import { grant, type Guard } from './guard.js';

/** Counts an acquisition that came to nothing, and makes its error. */
export function failure(
  lock: string,
  table: LockTable,
  guard: Guard,
  timeout: number,
  outcome: Exclude<Outcome, { status: 'granted' }>,
): LockError {
  switch (outcome.status) {
    case 'timeout':
      Atomics.add(table.cells, TIMEOUTS_CELL, 1n);
      return new LockTimeoutError(lock, guard.keys, timeout, outcome.stripe, outcome.holders);
    case 'deadlock':
      Atomics.add(table.cells, DEADLOCKS_CELL, 1n);
      return new DeadlockError(lock, guard.keys, outcome.threads, outcome.stripes);
    case 'interrupted':
      return new LockError('ERR_LOCK_INTERRUPTED', 'this thread is being ended');
  }
}

/** An acquisition that waits on the event loop: settles its promise exactly once, by grant, failure or abort. */
export class PendingAcquisition<G extends Guard> implements AsyncWaiter {
  readonly promise: Promise<G>;
  ticket = -1;
  readonly #lock: string;
  readonly #table: LockTable;
  readonly #guard: G;
  readonly #timeout: number;
  readonly #signal: AbortSignal | undefined;
  #resolve!: (guard: G) => void;
  #reject!: (reason: unknown) => void;

  constructor(lock: string, table: LockTable, guard: G, timeout: number, signal: AbortSignal | undefined) {
    this.#lock = lock;
    this.#table = table;
    this.#guard = guard;
    this.#timeout = timeout;
    this.#signal = signal;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The pending acquisition is its own listener (see handleEvent): no closure for each.
    signal?.addEventListener('abort', this);
  }

  settle(outcome: Outcome): void {
    this.#signal?.removeEventListener('abort', this);
    if (outcome.status === 'granted') {
      grant(this.#guard, outcome.abandoned);
      this.#resolve(this.#guard);
    } else {
      this.#reject(failure(this.#lock, this.#table, this.#guard, this.#timeout, outcome));
    }
  }

  /** The signal was aborted. */
  handleEvent(): void {
    const signal = this.#signal!;
    signal.removeEventListener('abort', this);
    if (!this.#table.cancel(this)) return;
    Atomics.add(this.#table.cells, ABORTS_CELL, 1n);
    this.#reject(signal.reason);
  }
}
