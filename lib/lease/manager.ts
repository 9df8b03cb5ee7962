import { inspect, type InspectOptions } from 'node:util';
import { callArguments, checkBoolean } from '../common/checks.js';
import { invalidArgType, outOfRange } from '../common/errors.js';
import { pause } from '../common/timers.js';
import { inspectBound, threadBound } from '../common/thread-bound.js';
import { Acquisition } from './acquisition.js';
import { managerClosed } from './contract/errors.js';
import type { LeaseStore } from './contract/lease-store.js';
import {
  checkLeaseOptions,
  resolveDrain,
  resolveManagerOptions,
  resolveTerms,
  resolveWait,
  type AcquireLeaseOptions,
  type LeaseCloseOptions,
  type LeaseTerms,
  type ManagerSettings,
  type TryAcquireLeaseOptions,
  type WarningLeaseManagerOptions,
  type WithLeaseOptions,
} from './contract/options.js';
import { checkKeys } from './contract/several-keys.js';
import { LeaseSource } from './lease-source.js';
import { createLease, giveBackLease, type Lease } from './lease.js';
import { MemoryLeaseStore } from './memory-store.js';

const THREAD_BOUND = threadBound('LeaseManager', 'create one there, over the same store');

/** Throws as an acquisition with these options would, and if other acquisitions of the key would share the lease. */
export let checkUnshared: (leases: LeaseManager, options: TryAcquireLeaseOptions) => void;
/** Whether the store grants a key that this manager holds to the manager again. */
export let takesItsOwn: (leases: LeaseManager) => boolean;

/**
 * Takes leases in a store, keeps them alive, and reports when they are lost. It belongs to the thread that made it;
 * threads and processes share the store.
 *
 * All its leases share one timer, which does not keep the process alive; a waiting `acquire` does. Nothing that it does
 * by itself ever causes an unhandled rejection.
 */
export class LeaseManager {
  /**
   * An enumerable property that cannot be cloned, so that structured clone refuses the whole object.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  /** Where its leases live. */
  readonly store: LeaseStore;
  readonly #settings: ManagerSettings;
  readonly #grants: LeaseSource;
  #closed: Promise<void> | undefined;
  /** Aborts when leases that are held are not waited for any more. */
  readonly #drain = new AbortController();

  /**
   * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options, a LockError
   * (ERR_LEASE_BACKGROUND) for renewal in the background over a store that no other thread can open.
   */
  constructor(options?: WarningLeaseManagerOptions) {
    const settings = resolveManagerOptions(options);
    const { clock } = settings;
    const store = settings.store ?? new MemoryLeaseStore(clock === undefined ? {} : { clock });
    this.store = store;
    this.#settings = settings;
    this.#grants = new LeaseSource(store, settings);
    this.#grants.checkTerms(settings.terms);
  }

  /**
   * One attempt. Resolves to undefined if another live holder has the key, or one of several keys. Rejects with LeaseStoreError if
   * the store fails, or if its grant arrives after the lease has expired; such a lease is never returned.
   */
  async tryAcquire(
    keys: string | readonly string[],
    options?: TryAcquireLeaseOptions,
  ): Promise<Lease | undefined> {
    checkLeaseOptions.tryAcquire(options);
    return this.#try(keys, options, undefined);
  }

  /**
   * Waits up to timeout (default 5000 ms), which keeps the process alive. Rejects with LockTimeoutError or
   * signal.reason. Store failures are retried until then, and the last one is the error's cause.
   *
   * Within a manager, waiters are served in order of arrival. The first one asks the store repeatedly, with the pauses of `backoff`,
   * and at once when the store reports a release. In memory, a lease that is released or expires wakes its waiters in every thread, and
   * threads take turns.
   *
   * Several keys are taken all or none, for one lease, and a list without keys is valid, as for a `StripedLock`. They
   * are taken in an order that all share, so acquisitions of overlapping lists never wait for each other in a cycle.
   */
  async acquire(keys: string | readonly string[], options?: AcquireLeaseOptions): Promise<Lease> {
    checkLeaseOptions.acquire(options);
    return this.#acquire(keys, options);
  }

  /**
   * Runs fn while holding the lease; releases however fn ends. A failing release is not an error here: the lease ends
   * with its TTL. With ifAvailable, resolves to undefined without calling fn when the lease is taken.
   */
  withLease<T>(keys: string | readonly string[], fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  withLease<T>(
    keys: string | readonly string[],
    options: WithLeaseOptions & { ifAvailable?: false },
    fn: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T>;
  withLease<T>(
    keys: string | readonly string[],
    options: WithLeaseOptions,
    fn: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T | undefined>;
  async withLease<T>(
    keys: string | readonly string[],
    optionsOrFn: WithLeaseOptions | ((lease: Lease) => T | PromiseLike<T>),
    maybeFn?: (lease: Lease) => T | PromiseLike<T>,
  ): Promise<T | undefined> {
    const [options, fn] = callArguments<WithLeaseOptions, (lease: Lease) => T | PromiseLike<T>>(
      optionsOrFn,
      maybeFn,
    );
    const lease = await (options === undefined ? this.acquire(keys) : this.#acquireOrTry(keys, options));
    if (!lease) return undefined;
    if (options?.signal?.aborted === true) {
      await giveBackLease(lease).catch(() => undefined);
      throw options.signal.reason;
    }
    try {
      return await fn(lease);
    } finally {
      await lease.release().catch(() => undefined);
    }
  }

  /**
   * Stops all renewals, aborts the signals of all held leases, and releases the leases. Waiting and later acquisitions are
   * rejected with a LockError, code ERR_LEASE_MANAGER_CLOSED. Waits for attempts that the store has not answered yet, and
   * gives their grants back. Releases that fail are repeated until their leases expire.
   * Idempotent. Rejects with a LeaseStoreError if the store failed to the end, and at once if it refuses for good. The
   * store stays open: it belongs to the caller, who closes it afterwards.
   *
   * With `drain`, held leases stay held and renewed until their holders have released them, for at most `drain` milliseconds.
   * A later call can shorten that time; a later call without `drain` ends it. Rejects with a TypeError (ERR_INVALID_ARG_TYPE)
   * or RangeError (ERR_OUT_OF_RANGE) for bad options, and then closes nothing.
   */
  async close(options?: LeaseCloseOptions): Promise<void> {
    const drain = resolveDrain(options);
    this.#grants.refuse();
    if (drain === 0) this.#drain.abort();
    else void pause(drain, this.#drain.signal).then(() => this.#drain.abort());
    return (this.#closed ??= this.#close());
  }

  /**
   * What `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspectBound(this, options);
  }

  async #close(): Promise<void> {
    // #closed must be set first: ending the grants may run code that reads it.
    await Promise.resolve();
    await this.#grants.drain(this.#drain.signal);
    this.#drain.abort();
    await this.#grants.close();
  }

  /** The checks before each attempt. `keys` is the number of keys. */
  #begin(options: TryAcquireLeaseOptions | undefined, keys: number): LeaseTerms {
    const terms = resolveTerms(this.#settings, options);
    if (terms.limit > 1 && keys !== 1)
      throw outOfRange('options.limit', '1 unless it is for one key', terms.limit);
    this.#grants.checkTerms(terms);
    if (this.#closed) throw managerClosed();
    return terms;
  }

  /** `options`: checked for their names. Throws what is wrong with the others. */
  #try(
    keys: string | readonly string[],
    options: TryAcquireLeaseOptions | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Lease | undefined> {
    const checked = checkKeys(keys);
    const terms = this.#begin(options, checked.length);
    signal?.throwIfAborted();
    if (checked.length === 0) return Promise.resolve(createLease([]));
    return new Acquisition(this.#grants, checked, terms, { timeout: 0, signal }).once();
  }

  /** As {@link #try}. */
  #acquire(keys: string | readonly string[], options?: AcquireLeaseOptions): Promise<Lease> {
    const checked = checkKeys(keys);
    const terms = this.#begin(options, checked.length);
    const wait = resolveWait(options);
    wait.signal?.throwIfAborted();
    if (checked.length === 0) return Promise.resolve(createLease([]));
    return new Acquisition(this.#grants, checked, terms, wait).wait();
  }

  static {
    takesItsOwn = (leases) => leases.#settings.holder !== undefined;
    checkUnshared = (leases, options) => {
      const settings = leases.#settings;
      if (settings.reentrant) throw invalidArgType('leases', 'a LeaseManager that is not reentrant', leases);
      leases.#grants.checkTerms(resolveTerms(settings, options));
    };
  }

  async #acquireOrTry(
    keys: string | readonly string[],
    options: WithLeaseOptions,
  ): Promise<Lease | undefined> {
    checkLeaseOptions.withLease(options);
    const { ifAvailable } = options;
    if (ifAvailable === undefined || !checkBoolean(ifAvailable, 'options.ifAvailable')) {
      return this.#acquire(keys, options);
    }
    const { signal } = resolveWait(options);
    signal?.throwIfAborted();
    return this.#try(keys, options, signal);
  }
}
