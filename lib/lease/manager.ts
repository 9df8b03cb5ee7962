import { inspect, type InspectOptions } from 'node:util';
import { threadId } from 'node:worker_threads';
import { callArguments, checkBoolean } from '../common/checks.js';
import { acquireStart, acquireTracing, shownKeys } from '../common/diagnostics.js';
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

/**
 * For elections only. Throws if an acquisition with these options would throw. Also throws if the manager is
 * reentrant, because other acquisitions of the key would share the lease.
 */
export let checkUnshared: (leases: LeaseManager, options: TryAcquireLeaseOptions) => void;
/**
 * Whether the manager has a `holder`. If it has one, the store can grant the manager a key that the manager
 * already holds.
 */
export let takesItsOwn: (leases: LeaseManager) => boolean;
/** Throws if the manager was closed. */
export let refuseClosedManager: (leases: LeaseManager) => void;

/**
 * Acquires leases in a store, renews them, and reports their loss. A manager belongs to the thread that
 * created it. Several threads and processes can share a store.
 *
 * All leases of a manager share one timer, which does not keep the process alive. A waiting `acquire` keeps
 * the process alive. A failed automatic renewal never causes an unhandled rejection.
 */
export class LeaseManager {
  /**
   * An enumerable property that cannot be cloned, so that structured clone refuses the whole object.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  /** The store of the manager's leases. */
  readonly store: LeaseStore;
  readonly #settings: ManagerSettings;
  readonly #grants: LeaseSource;
  #closed: Promise<void> | undefined;
  /** Aborts when `close` stops waiting for held leases. */
  readonly #drain = new AbortController();

  /**
   * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. Throws a
   * LockError (ERR_LEASE_BACKGROUND) if the options require background renewal, but no other thread can open
   * the store.
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
   * Makes one attempt. Resolves to undefined if another owner holds one of the keys. Rejects with a
   * LeaseStoreError if the store fails, or if the store's grant arrives after the lease has expired. Such a
   * lease is never returned.
   */
  async tryAcquire(
    keys: string | readonly string[],
    options?: TryAcquireLeaseOptions,
  ): Promise<Lease | undefined> {
    return this.#traced(keys, options, () => {
      checkLeaseOptions.tryAcquire(options);
      return this.#try(keys, options, undefined);
    });
  }

  /**
   * Waits up to `timeout` (default 5000 ms) for the lease. The wait keeps the process alive. Rejects with a
   * LockTimeoutError, or with `signal.reason`. If the store fails, attempts are repeated until the timeout.
   * The last failure is then the cause of the LockTimeoutError.
   *
   * Within a manager, waiters are served in the order of arrival. The first waiter polls the store, with the
   * pauses of `backoff`, and retries at once when the store reports a release. In the memory store, the
   * release or expiry of a lease wakes waiters in all threads, and threads take turns.
   *
   * An acquisition of several keys gets all of them or none. A list without keys is valid, as for a
   * `StripedLock`. All acquisitions take keys in the same order, so acquisitions of overlapping lists never
   * wait for each other in a cycle.
   */
  async acquire(keys: string | readonly string[], options?: AcquireLeaseOptions): Promise<Lease> {
    return this.#traced(keys, options, () => {
      checkLeaseOptions.acquire(options);
      return this.#acquire(keys, options);
    });
  }

  /**
   * Acquires a lease, calls `fn`, and releases the lease, whether or not `fn` fails. If the release fails,
   * `withLease` does not reject: the lease then ends when its TTL expires. With `ifAvailable`, resolves to
   * undefined without calling `fn` if another owner holds a key.
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
    const lease = await this.#traced(keys, options, () => this.#acquireOrTry(keys, options));
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
   * Stops all renewals, aborts the signals of all held leases, and releases the leases. Rejects waiting and
   * later acquisitions with a LockError (ERR_LEASE_MANAGER_CLOSED). Waits for attempts that the store has not
   * answered yet, and releases their grants. A release that fails is repeated until its lease expires.
   * Rejects with a LeaseStoreError if a release never succeeds, or at once with the store's permanent error.
   * Idempotent. The store stays open: it belongs to the caller, who closes it afterwards.
   *
   * With `drain`, held leases stay held and are renewed until their holders release them, for at most
   * `drain` milliseconds. A later call can shorten that time. A later call without `drain` ends the wait
   * at once. Rejects with a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad
   * options, and then closes nothing.
   */
  async close(options?: LeaseCloseOptions): Promise<void> {
    const drain = resolveDrain(options);
    this.#grants.refuse();
    if (drain === 0) this.#drain.abort();
    else void pause(drain, this.#drain.signal).then(() => this.#drain.abort());
    // In a microtask, so that `#closed` is set before code runs that reads it.
    return (this.#closed ??= Promise.resolve().then(() => this.#grants.close(this.#drain)));
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspectBound(this, options);
  }

  /** Runs an acquisition. Publishes its span if a program has subscribed to spans. */
  #traced<T>(
    keys: string | readonly string[],
    options: TryAcquireLeaseOptions | undefined,
    acquire: () => Promise<T>,
  ): Promise<T> {
    if (!acquireStart.hasSubscribers) return acquire();
    const lock = this.#settings.name;
    // The options are checked only during the span.
    const mode = options?.mode === 'shared' ? 'shared' : 'exclusive';
    const message = { lock, keys: shownKeys(keys), mode, kind: 'async', threadId } as const;
    // An async function, because `tracePromise` would end the span of a call that throws without `asyncEnd`.
    return acquireTracing.tracePromise(async () => acquire(), message);
  }

  /**
   * Checks the options of an acquisition, and returns the terms of its lease. Throws if the manager is
   * closed. `keys`: the number of keys.
   */
  #begin(options: TryAcquireLeaseOptions | undefined, keys: number): LeaseTerms {
    const terms = resolveTerms(this.#settings, options);
    if (terms.limit > 1 && keys !== 1)
      throw outOfRange('options.limit', '1 unless it is for one key', terms.limit);
    this.#grants.checkTerms(terms);
    refuseClosedManager(this);
    return terms;
  }

  /**
   * Makes one attempt. The caller must have checked the names of the options. Throws for bad keys or options.
   */
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

  /** Waits for the lease. Checks its arguments as {@link #try} does. */
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
    refuseClosedManager = (leases) => {
      if (leases.#closed) throw managerClosed();
    };
    checkUnshared = (leases, options) => {
      const settings = leases.#settings;
      if (settings.reentrant) throw invalidArgType('leases', 'a LeaseManager that is not reentrant', leases);
      leases.#grants.checkTerms(resolveTerms(settings, options));
    };
  }

  async #acquireOrTry(
    keys: string | readonly string[],
    options: WithLeaseOptions | undefined,
  ): Promise<Lease | undefined> {
    checkLeaseOptions.withLease(options);
    const { ifAvailable = false } = options ?? {};
    if (!checkBoolean(ifAvailable, 'options.ifAvailable')) return this.#acquire(keys, options);
    const { signal } = resolveWait(options);
    signal?.throwIfAborted();
    return this.#try(keys, options, signal);
  }
}
