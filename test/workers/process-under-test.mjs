// A `ProcessLock` as the contract of locks between threads sees one: with the counters that it does not have itself, of this
// thread, and a handle that says where the file is.

import { LockTimeoutError } from 'stripelock';
import { ProcessLock } from 'stripelock/process';

export class ProcessUnderTest extends ProcessLock {
  /** Keys never share anything, so each has a separate number. */
  #numbers = new Map();
  #counts = { timeouts: 0, aborts: 0, deadlocks: 0 };

  get handle() {
    return { kind: 'process', path: this.path, timeout: this.timeout };
  }

  static from({ path, timeout }) {
    return new ProcessUnderTest({ path, timeout });
  }

  stripeOf(key) {
    const known = this.#numbers.get(key) ?? this.#numbers.size;
    this.#numbers.set(key, known);
    return known;
  }

  acquire(keys, options) {
    const acquired = super.acquire(keys, options);
    acquired.catch((error) => this.#count(error, options));
    return acquired;
  }

  acquireSync(keys, options) {
    try {
      return super.acquireSync(keys, options);
    } catch (error) {
      this.#count(error, options);
      throw error;
    }
  }

  #count(error, options) {
    if (error instanceof LockTimeoutError) this.#counts.timeouts++;
    else if (error?.code === 'ERR_LOCK_DEADLOCK') this.#counts.deadlocks++;
    else if (options?.signal?.aborted === true) this.#counts.aborts++;
  }

  stats() {
    const states = this.inspect();
    return {
      ...this.#counts,
      held: states.filter(({ holders }) => holders.length > 0).length,
      waiting: states.reduce((sum, { waiters }) => sum + waiters.length, 0),
    };
  }
}
