import { checkBoolean, checkFunction, checkOptionsObject } from '../common/checks.js';
import { LeaseStoreError, leaseTimeout, managerClosed } from './contract/errors.js';
import { checkKey, type LeaseStore } from './contract/lease-store.js';
import {
  resolveManagerOptions,
  resolveTerms,
  resolveWait,
  type AcquireLeaseOptions,
  type LeaseTerms,
  type ManagerSettings,
  type TryAcquireLeaseOptions,
  type WarningLeaseManagerOptions,
  type WithLeaseOptions,
} from './contract/options.js';
import { Grants } from './grants/store-grants.js';
import { createLease, type Lease } from './hold/lease.js';
import { Schedule } from './time/schedule.js';
import { PollingAcquisition, QueuedAcquisition, type Wait, type WaitingAcquisition } from './wait/acquisition.js';
import { askOnce } from './wait/ask-once.js';
import { Lines } from './wait/polling-queue.js';

/**
 * Takes leases in a store, keeps them alive, and tells when they are lost. Used by the thread that made it; threads
 * and processes meet in the store.
 *
 * All its leases share one timer, which does not keep the process alive; a waiting `acquire` does. Nothing it does by
 * itself ever surfaces as an unhandled rejection.
 */
export class LeaseManager {
  readonly store: LeaseStore;
  readonly #settings: ManagerSettings;
  readonly #grants: Grants;
  /** In real time, for acquisitions that wait. */
  readonly #waits = new Schedule(undefined, true);
  readonly #waiting = new Set<WaitingAcquisition>();
  readonly #lines: Lines;
  #closed: Promise<void> | undefined;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
  constructor(options?: WarningLeaseManagerOptions) {
    this.#settings = resolveManagerOptions(options);
    this.#grants = new Grants(this.#settings);
    this.store = this.#grants.store;
    const { stableOwners, backoff } = this.#grants;
    this.#lines = new Lines({ store: this.store, backoff, schedule: this.#waits, stableOwners });
  }

  /**
   * One attempt: undefined when another live holder has it. Rejects with LeaseStoreError when the store fails, or
   * grants so late that the lease is over: never granted then.
   */
  tryAcquire(key: string, options?: TryAcquireLeaseOptions): Promise<Lease | undefined> {
    try {
      const terms = this.#begin(key, options);
      const grants = this.#grants;
      if (!grants.takesDirectly) return grants.attempt(key, terms);
      const hold = grants.attemptDirectly(key, terms);
      return Promise.resolve(hold && createLease(hold));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Waits up to timeout (default 5000 ms), which keeps the process alive. Rejects with LockTimeoutError or
   * signal.reason. Store failures are retried until then, and the last is the error's cause.
   *
   * A memory lease that is released, or expires, wakes its waiters at once, in every thread: within a thread in order
   * of arrival, and threads take turns. Other stores are asked again and again, by `backoff`, and at once when one that hears of
   * releases has heard of one.
   */
  acquire(key: string, options?: AcquireLeaseOptions): Promise<Lease> {
    const hold = options === undefined ? this.#grants.takeAtOnce(key) : undefined;
    return hold ? Promise.resolve(createLease(hold)) : this.#acquireSlow(key, options);
  }

  /**
   * Runs fn while holding the lease; releases however fn ends. A failing release is no error here: the lease ends with
   * its TTL. With ifAvailable, resolves to undefined without calling fn when the lease is taken.
   */
  withLease<T>(key: string, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  withLease<T>(
    key: string,
    options: WithLeaseOptions & { ifAvailable?: false },
    fn: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T>;
  withLease<T>(
    key: string,
    options: WithLeaseOptions,
    fn: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T | undefined>;
  async withLease<T>(
    key: string,
    optionsOrFn: WithLeaseOptions | ((lease: Lease) => T | PromiseLike<T>),
    maybeFn?: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T | undefined> {
    const withoutOptions = typeof optionsOrFn === 'function' && maybeFn === undefined;
    const fn = withoutOptions ? optionsOrFn : maybeFn;
    checkFunction(fn, 'fn');
    const options = withoutOptions ? undefined : (optionsOrFn as WithLeaseOptions);
    const lease = await (options === undefined ? this.acquire(key) : this.#acquireOrTry(key, options));
    if (!lease) return undefined;
    try {
      options?.signal?.throwIfAborted();
      return await fn!(lease);
    } finally {
      await lease.release().catch(() => undefined);
    }
  }

  /**
   * Stops every renewal and releases every lease it holds, whose signals abort; acquisitions that wait are rejected
   * with a LockError, code ERR_LEASE_MANAGER_CLOSED, and so are later ones. Waits for attempts that the store has not
   * answered yet, and gives back what they were granted. Idempotent. Rejects with a LeaseStoreError where the store
   * failed to release; those leases end with their TTL. The store stays open: it is the caller's.
   */
  close(): Promise<void> {
    this.#grants.refuse();
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    // Not before #closed is set, which what follows may ask for.
    await Promise.resolve();
    for (const waiting of [...this.#waiting]) waiting.fail(managerClosed());
    await this.#grants.close();
  }

  /** What comes before every attempt. */
  #begin(key: string, options: TryAcquireLeaseOptions | undefined): LeaseTerms {
    checkKey(key);
    const terms = resolveTerms(this.#settings, options);
    if (this.#closed) throw managerClosed();
    return terms;
  }

  #acquireSlow(key: string, options: AcquireLeaseOptions | undefined): Promise<Lease> {
    try {
      const terms = this.#begin(key, options);
      const { timeout, signal } = resolveWait(options);
      if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
      const grants = this.#grants;
      if (!grants.takesDirectly) return this.#poll(key, terms, timeout, signal);
      // Others who wait for it wait for its holders: another of them must not wait for the others.
      const shared = grants.shared(key);
      if (shared) return Promise.resolve(createLease(shared));
      // Who came before goes first.
      const turns = grants.turns!;
      const first = turns.isAwaited(key) ? NaN : grants.takeTurn(key, terms, 0);
      if (typeof first !== 'number') return Promise.resolve(createLease(first));
      if (timeout === 0) return Promise.reject(leaseTimeout(key, timeout, undefined));
      const asked = performance.now();
      return this.#wait(key, timeout, signal, (wait, ended) => {
        const attempt = (): Lease | number => {
          const turn = grants.takeTurn(key, terms, performance.now() - asked);
          return typeof turn === 'number' ? turn : createLease(turn);
        };
        return new QueuedAcquisition(wait, ended, turns, grants.direct!.clock, attempt);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #poll(key: string, terms: LeaseTerms, timeout: number, signal: AbortSignal | undefined): Promise<Lease> {
    if (timeout === 0) return this.#askOnce(key, terms, signal);
    return this.#wait(key, timeout, signal, (wait, ended) => {
      return new PollingAcquisition(wait, ended, this.#lines, this.#grants.attempts(key, terms));
    });
  }

  async #askOnce(key: string, terms: LeaseTerms, signal: AbortSignal | undefined): Promise<Lease> {
    let failure: unknown;
    try {
      const lease = await askOnce(() => this.#grants.attempt(key, terms), signal);
      if (lease) return lease;
    } catch (error) {
      if (signal?.aborted === true || !(error instanceof LeaseStoreError)) throw error;
      failure = error;
    }
    throw leaseTimeout(key, 0, failure);
  }

  #wait(
    key: string,
    timeout: number,
    signal: AbortSignal | undefined,
    make: (wait: Wait, ended: (waiting: WaitingAcquisition) => void) => WaitingAcquisition,
  ): Promise<Lease> {
    const waiting = make({ key, timeout, signal, schedule: this.#waits }, (ended) => {
      this.#waiting.delete(ended);
    });
    this.#waiting.add(waiting);
    waiting.start();
    return waiting.promise;
  }

  async #acquireOrTry(key: string, options: WithLeaseOptions): Promise<Lease | undefined> {
    checkOptionsObject(options);
    const { ifAvailable } = options;
    if (ifAvailable === undefined || !checkBoolean(ifAvailable, 'options.ifAvailable')) {
      return this.acquire(key, options);
    }
    const { signal } = resolveWait(options);
    signal?.throwIfAborted();
    return askOnce(() => this.tryAcquire(key, options), signal);
  }
}
