import { inspect, type InspectOptions } from 'node:util';
import { checkBoolean, checkFunction, checkOptionsObject, type Names } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import { inspectBound, threadBound } from '../common/thread-bound.js';
import type { HandleOf } from '../common/types.js';
import type { LeaseTable, LeaseWatch } from '../engine/contract/lease-table.js';
import { leaseEngine } from '../engine/select.js';
import {
  checkClock,
  checkInfo,
  checkKey,
  checkOwner,
  checkToken,
  checkTtl,
  keptOwner,
  MAX_TTL,
  readClock,
  type Clock,
  type AbandonmentLeaseStore,
  type FencingToken,
  type GrantDetails,
  type InfoLeaseState,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from './contract/lease-store.js';
import {
  listedLease,
  resolveList,
  type ListedLease,
  type ListingLeaseStore,
  type ListLeasesOptions,
} from './contract/listing.js';
import {
  checkReader,
  READERS,
  type LeaveDetails,
  type SharedGrant,
  type SharedLeaseStore,
} from './contract/shared.js';
import { Schedule, type Due } from './schedule.js';
import { checkHandle, numberOf, type HandleFields } from './handle.js';

const THREAD_BOUND = threadBound(
  'MemoryLeaseStore',
  'pass its handle, and open it there with MemoryLeaseStore.from()',
);

const KIND = 'stripelock/memory-lease-store';

/**
 * The time, in milliseconds, for which the table keeps a lease after its holder considers the lease expired.
 * Timers are late by up to two milliseconds. So the holder is notified of the expiry before another owner is
 * granted the key. With a clock that the caller provides, there is no margin: each lease ends exactly at its
 * deadline.
 */
const MARGIN = 5;

/** Values of `GrantDetails.abandoned` for one key. */
const ABANDONED: readonly boolean[] = [true];
const NOT_ABANDONED: readonly boolean[] = [false];

/** Options of `new MemoryLeaseStore(options)`. */
export interface MemoryLeaseStoreOptions {
  /**
   * The clock that decides when leases expire. If a store is created with a clock, all threads that open the
   * store must also pass a clock, and all these clocks must agree. Default: a monotonic clock of the process,
   * which also counts while the machine is suspended.
   */
  clock?: Clock;
}

interface StoreHandle extends HandleFields {
  readonly kind: typeof KIND;
  readonly ownClock: boolean;
}

class OpenedTable {
  constructor(
    readonly table: LeaseTable,
    readonly clock: Clock | undefined,
  ) {}
}

/**
 * A store of leases in memory. All threads of the process can use the same store: pass {@link handle} to a
 * worker, and open the store there with {@link MemoryLeaseStore.from}. Each operation is one short native
 * call, which is complete when its promise is returned.
 *
 * A lease lasts for its TTL, even if the thread that acquired it ends. The next holder then sees
 * `lease.abandoned`. The store remembers the last 1024 abandoned keys, as long as a thread has the store
 * open.
 *
 * Tokens have 64 bits. Each token is higher than all earlier tokens of the store, including the
 * tokens of other keys. The first token is the current time in nanoseconds since 1970. Released
 * leases are removed at once, and expired leases are removed during later operations. If readers are put
 * off when the last one releases, the key is removed after that time. So memory is bounded by the held
 * leases and the free keys that still refuse readers.
 *
 * If the addon cannot be loaded, the store works within one thread. Other threads cannot open its handle
 * (LockError, code ERR_LOCK_ENGINE).
 */
export class MemoryLeaseStore
  implements
    InfoLeaseStore,
    AbandonmentLeaseStore,
    SharedLeaseStore,
    WakingLeaseStore,
    ReopenableLeaseStore,
    ListingLeaseStore
{
  /**
   * An enumerable property that cannot be cloned, so that structured clone refuses the whole object.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  /**
   * The value with which another thread opens this store: see {@link MemoryLeaseStore.from}. It is
   * structured-cloneable.
   */
  readonly handle: HandleOf<'stripelock/memory-lease-store'>;
  readonly #table: LeaseTable;
  readonly #clock: Clock | undefined;
  readonly #awaited = new Map<string, AwaitedKey>();
  /**
   * The times at which the leases of awaited keys expire. The schedule does not keep the process alive; the
   * waiting acquisitions do.
   */
  readonly #expiries: Schedule<AwaitedKey>;
  readonly #margin: number;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) for bad options. */
  constructor(options?: MemoryLeaseStoreOptions) {
    const opened =
      (options as unknown) instanceof OpenedTable ? (options as unknown as OpenedTable) : create(options);
    this.#table = opened.table;
    this.#clock = opened.clock;
    this.#expiries = new Schedule(opened.clock, false);
    this.#margin = opened.clock === undefined ? MARGIN : 0;
    const { id, name } = leaseEngine();
    const { number } = opened.table;
    this.handle = Object.freeze<StoreHandle>({
      kind: KIND,
      engine: name,
      id,
      number,
      ownClock: opened.clock !== undefined,
    });
  }

  /**
   * Opens the same store in another thread, or again in this one. Throws a TypeError for a value that is not
   * a handle. Throws a TypeError if `options` has a clock and the store was created without one, or the other
   * way round. Throws a LockError (ERR_LOCK_ENGINE) for a handle of another process.
   */
  static from(
    handle: HandleOf<'stripelock/memory-lease-store'>,
    options?: MemoryLeaseStoreOptions,
  ): MemoryLeaseStore {
    const clock = clockOf(options);
    const fields = checkHandle(handle, KIND, 'the handle of a MemoryLeaseStore') as StoreHandle;
    const ownClock = checkBoolean(fields.ownClock, 'handle.ownClock');
    if (ownClock !== (clock !== undefined)) {
      const expected = ownClock
        ? 'given, as it was when the store was made: its leases do not expire by the default clock'
        : 'left out, as it was when the store was made: its leases expire by the default clock';
      throw invalidArgType('options.clock', expected, clock);
    }
    const table = leaseEngine().openTable(ownClock, numberOf(fields));
    return new MemoryLeaseStore(new OpenedTable(table, clock) as MemoryLeaseStoreOptions);
  }

  /**
   * The number of keys in the store, including expired keys that were not removed yet, and free keys that still
   * put off readers.
   */
  get size(): number {
    return this.#table.size;
  }

  /**
   * Describes how another thread opens this store for background renewal. Undefined if the store has a
   * `clock`, if it is an instance of a subclass, or if the addon cannot be loaded.
   */
  get source(): LeaseStoreSource | undefined {
    const { engine, ownClock } = this.handle as StoreHandle;
    // The other thread would open a plain store, which lacks the methods that a subclass overrides.
    const isPlain = Object.getPrototypeOf(this) === MemoryLeaseStore.prototype;
    if (engine !== 'native' || ownClock || !isPlain) return undefined;
    return { module: 'stripelock', name: 'MemoryLeaseStore', options: this.handle };
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info = '',
    details?: GrantDetails,
  ): Promise<FencingToken | undefined> {
    checkArguments(key, owner);
    const answer = this.#table.tryAcquire(key, owner, this.#inTable(ttl), this.#at(), checkInfo(info));
    if (typeof answer === 'bigint') {
      const isAbandoned = answer < 0n;
      if (details !== undefined) details.abandoned = isAbandoned ? ABANDONED : NOT_ABANDONED;
      return isAbandoned ? -answer : answer;
    }
    this.#awaited.get(key)?.refused(answer);
    return undefined;
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    checkArguments(key, owner);
    const text = info === undefined ? undefined : checkInfo(info);
    return this.#table.renew(key, owner, this.#inTable(ttl), this.#at(), text);
  }

  async release(key: string, owner: string, token?: FencingToken): Promise<boolean> {
    checkArguments(key, owner);
    const granted = token === undefined ? undefined : checkToken(token);
    // The table treats the token 0 as "any token". But no lease has the token 0, so here the result is false.
    return granted !== 0n && this.#table.end(key, owner, this.#at(), granted);
  }

  async keep(key: string, owner: string, ttl: number, token: FencingToken): Promise<boolean> {
    checkArguments(key, owner);
    const time = checkTtl(ttl);
    return this.#table.keep(key, owner, checkToken(token), keptOwner(owner), time, this.#at());
  }

  async takeBack(key: string, owner: string, token: FencingToken, wasUsed: boolean): Promise<boolean> {
    checkArguments(key, owner);
    checkBoolean(wasUsed, 'wasUsed');
    const granted = checkToken(token);
    return granted !== 0n && this.#table.takeBack(key, owner, granted, wasUsed, this.#at());
  }

  async tryAcquireShared(
    key: string,
    reader: string,
    ttl: number,
    details?: GrantDetails,
  ): Promise<SharedGrant | undefined> {
    const name = READERS + checkReader(reader);
    const answer = this.#table.join(checkKey(key), name, this.#inTable(ttl), this.#at());
    if (typeof answer === 'number') {
      this.#awaited.get(key)?.putOff(answer);
      return undefined;
    }
    const { group, token } = answer;
    if (details !== undefined) details.abandoned = token < 0n ? ABANDONED : NOT_ABANDONED;
    return { group, token: token < 0n ? -token : token };
  }

  async releaseShared(key: string, reader: string, details?: LeaveDetails): Promise<boolean> {
    const left = this.#table.leave(checkKey(key), READERS + checkReader(reader), this.#at());
    if (details !== undefined) details.freed = left === 'freed';
    return left !== undefined;
  }

  async putOffReaders(key: string, milliseconds: number): Promise<boolean> {
    return this.#table.putOffReaders(checkKey(key), checkTtl(milliseconds, 'milliseconds'), this.#at());
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    return this.inspectNow(key);
  }

  /**
   * As the method `inspect`, but synchronous. Throws for a bad key.
   *
   * @internal
   */
  inspectNow(key: string): InfoLeaseState | undefined {
    const state = this.#table.inspect(checkKey(key), this.#at());
    if (state === undefined || this.#margin === 0) return state;
    return { ...state, remaining: this.#withoutMargin(state.remaining) };
  }

  /**
   * Lists the held leases, sorted by key. One native call visits all leases, and calls of other threads wait
   * until that call has ended.
   */
  async list(options?: ListLeasesOptions): Promise<readonly ListedLease[]> {
    const { prefix, limit } = resolveList(options);
    return this.#table.list(prefix, limit, this.#at()).map(({ key, remaining, ...state }) => {
      return listedLease(key, { ...state, remaining: this.#withoutMargin(remaining) });
    });
  }

  /**
   * Calls `listener` when any thread has released the key, and when the lease of the key has expired. The
   * returned function stops these calls. Threads that listen for the same key take turns: for 5 ms after a
   * release, only the thread whose turn it is can acquire the key. If {@link putOffReaders} still refuses
   * readers, no thread has the turn. Throws for a bad key.
   */
  onRelease(key: string, listener: () => void): () => void {
    checkFunction(listener, 'listener');
    const name = checkKey(key);
    const awaited = this.#awaited.get(name) ?? this.#await(name);
    // Each call adds a separate function, because the caller may add the same listener twice.
    const added = (): void => listener();
    awaited.add(added);
    return () => {
      if (awaited.remove(added)) this.#awaited.delete(name);
    };
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspectBound(this, options);
  }

  #await(key: string): AwaitedKey {
    const table = this.#table;
    const remaining = (): number | undefined => table.inspect(key, this.#at())?.remaining;
    const awaited = new AwaitedKey(this.#expiries, remaining, (freed) => table.watch(key, freed));
    this.#awaited.set(key, awaited);
    return awaited;
  }

  /**
   * The argument `at` of the table's methods: the time on the caller's clock, or NaN if the table reads its
   * own clock.
   */
  #at(): number {
    return this.#clock === undefined ? NaN : readClock(this.#clock);
  }

  /** Converts the remaining time of a lease in the table to the time that its holder has left. */
  #withoutMargin(remaining: number): number {
    return this.#margin === 0 ? remaining : Math.max(1, remaining - this.#margin);
  }

  /**
   * Converts the TTL of a holder to the TTL in the table, which includes the margin. Throws for a bad TTL.
   */
  #inTable(ttl: number): number {
    return Math.min(checkTtl(ttl) + this.#margin, MAX_TTL);
  }
}

function checkArguments(key: unknown, owner: unknown): void {
  checkKey(key);
  checkOwner(owner);
}

function create(options: MemoryLeaseStoreOptions | undefined): OpenedTable {
  const clock = clockOf(options);
  return new OpenedTable(leaseEngine().openTable(clock !== undefined), clock);
}

const NAMES: Names<MemoryLeaseStoreOptions> = { clock: true };

function clockOf(options: MemoryLeaseStoreOptions | undefined): Clock | undefined {
  checkOptionsObject(options, NAMES);
  return options?.clock === undefined ? undefined : checkClock(options.clock);
}

/** A key for which listeners of this thread wait. */
class AwaitedKey implements Due {
  deadline = Infinity;
  place = -1;
  readonly #schedule: Schedule<AwaitedKey>;
  readonly #remaining: () => number | undefined;
  readonly #watch: LeaseWatch;
  /** The time of the next check whether the key is free; see {@link refused}. Infinity if none is planned. */
  #checkAt = Infinity;
  /** The time until which the table refuses readers; see {@link putOff}. Infinity if no reader was refused. */
  #readersRetryAt = Infinity;
  /** The listeners, in the order in which they take turns. */
  readonly #listeners = new Set<() => void>();

  /**
   * `remaining`: returns the milliseconds until the key's lease expires, or undefined if the key is free;
   * throws if the caller's clock throws. `watch`: see {@link LeaseTable.watch}.
   */
  constructor(
    schedule: Schedule<AwaitedKey>,
    remaining: () => number | undefined,
    watch: (freed: () => void) => LeaseWatch,
  ) {
    this.#schedule = schedule;
    this.#remaining = remaining;
    this.#watch = watch(() => this.#notify());
  }

  add(listener: () => void): void {
    this.#listeners.add(listener);
    // The key may have been released between the caller's attempt and the start of the watch.
    if (!this.#isHeld()) this.refused(0);
  }

  /** Removes a listener. True if no listener is left. */
  remove(listener: () => void): boolean {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return false;
    this.#schedule.clear(this);
    this.#watch.end();
    return true;
  }

  /**
   * Call when the table has refused the key. For `retryAfter` milliseconds, only a release can make the key
   * free. After that time, the listeners are notified if the key is free.
   */
  refused(retryAfter: number): void {
    this.#checkAt = this.#schedule.now() + retryAfter;
    this.#plan();
  }

  /**
   * Call when the table has refused a reader. After `retryAfter` milliseconds, the listeners are notified even
   * if the key is still held, because new readers may no longer be put off.
   */
  putOff(retryAfter: number): void {
    this.#readersRetryAt = this.#schedule.now() + retryAfter;
    this.#plan();
  }

  #plan(): void {
    this.#schedule.set(this, Math.min(this.#checkAt, this.#readersRetryAt));
  }

  /** Called by the schedule when the lease of the key may have expired, or readers are no longer put off. */
  run(now: number): void {
    const mayJoin = now >= this.#readersRetryAt;
    this.#checkAt = Infinity;
    if (mayJoin) this.#readersRetryAt = Infinity;
    else if (this.#readersRetryAt < Infinity) this.#plan();
    if (!this.#isHeld() || mayJoin) this.#notify();
  }

  /** Whether the key is held. If it is, schedules the next check for the time when its lease expires. */
  #isHeld(): boolean {
    try {
      const remaining = this.#remaining();
      if (remaining === undefined) return false;
      this.refused(remaining);
    } catch {
      // The caller's clock failed. No notification is needed, because waiters also poll.
    }
    return true;
  }

  /**
   * Notifies all listeners, because the first listener may no longer need the key. Before the calls, the
   * first listener moves to the end, so that another listener is the first next time.
   */
  #notify(): void {
    const called = [...this.#listeners];
    const [first] = called;
    if (first === undefined) return;
    this.#listeners.delete(first);
    this.#listeners.add(first);
    for (const listener of called) if (this.#listeners.has(listener)) listener();
  }
}
