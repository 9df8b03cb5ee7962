import { timerNow } from '../../common/elapsed.js';
import { leaseChannels } from '../../common/diagnostics.js';
import type { LeaseTable } from '../../engine/contract/lease-table.js';
import { leaseTimeout, storeFailure } from '../contract/errors.js';
import { MAX_TTL, type Clock, type FencingToken, type LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms, ManagerSettings, Wait } from '../contract/options.js';
import { allSlots, slotKey } from '../contract/slots.js';
import { announceGrant } from '../hold/announcements.js';
import { Hold } from '../hold/hold.js';
import type { Lease } from '../hold/lease.js';
import { directLeases, MemoryLeaseStore, timeArgument } from '../memory/memory-store.js';
import { FOREIGN_CLOCK_POLL } from '../time/schedule.js';
import { Acquisition, leaseOf, type Answer, type Asker } from './acquisition.js';
import { Grants, type Holder } from './grants.js';
import { KeptInTable } from './kept-in-table.js';
import { queuesFor, type TableQueues } from './table-queue.js';

/** Created once, so that a release need not allocate one. */
const FREED = Promise.resolve(true);
const NOT_FREED = Promise.resolve(false);

/**
 * The table keeps a lease for this many milliseconds longer than its holder counts on. So the holder is told before
 * somebody else is granted the key: timers are late by up to two milliseconds. Not used with a clock of the caller's
 * own, where every deadline is met to the millisecond.
 */
const MARGIN = 5;

const OPERATIONS = ['tryAcquire', 'renew', 'keep', 'release'] as const;
const original = OPERATIONS.map((operation): unknown => Reflect.get(MemoryLeaseStore.prototype, operation));

/**
 * Whether a manager may bypass the store and use its table: not if the store has an operation of its own, say from a
 * subclass.
 */
export function hasTable(store: LeaseStore): store is MemoryLeaseStore {
  return (
    store instanceof MemoryLeaseStore && OPERATIONS.every((operation, i) => store[operation] === original[i])
  );
}

/** Grants of a memory store's table, which decides at once. */
export class TableGrants extends Grants {
  /** The table reports whether a released lease had expired. */
  readonly looksBeforeRelease = false;
  readonly table: LeaseTable;
  /** The table's clock; undefined if the table reads its own. */
  readonly tableClock: Clock | undefined;
  readonly queues: TableQueues;
  /** Whether the manager and the table read the same clock. If so, the table reports when it granted. */
  readonly #sameClock: boolean;
  /** The table, while {@link takeAtOnce} may ask it. */
  #plain: LeaseTable | undefined;
  /** The TTL that {@link takeAtOnce} asks for. */
  readonly #plainTtl: number;
  #owners = 0;
  /** Whether nothing comes before a release by the table. */
  #freesPlainly: boolean;

  constructor(store: MemoryLeaseStore, settings: ManagerSettings) {
    super(store, settings);
    const { table, clock } = directLeases(store);
    this.table = table;
    this.tableClock = clock;
    this.queues = queuesFor(table);
    this.#sameClock = clock === settings.clock;
    this.#plainTtl = this.ttlInStore(settings.terms.ttl);
    const isPlain = clock === undefined && this.#sameClock && !this.stableOwners;
    const { info, background, minHold } = settings.terms;
    this.#plain = isPlain && info === undefined && !background ? table : undefined;
    this.#freesPlainly = !this.stableOwners && minHold === 0;
  }

  /**
   * For a manager without a clock, names or shared leases. It is short, like everything that it calls, so that V8
   * inlines it.
   */
  takeAtOnce(key: string): Hold | undefined {
    const table = this.#plain;
    if (table === undefined || typeof key !== 'string' || key === '') return undefined;
    if (this.queues.isAwaited(key)) return undefined;
    if (table.takeTurn(key, undefined, this.#plainTtl, NaN) !== 0) return undefined;
    const { granted, grantedHint, grantedAt } = table;
    const hold = new Hold(this, key, undefined, granted, grantedHint, this.terms, grantedAt);
    this.schedule.add(hold);
    if (leaseChannels.acquired.hasSubscribers) announceGrant(hold, 0);
    return hold;
  }

  tryAcquire(keys: readonly string[], terms: LeaseTerms): Promise<Lease | undefined> {
    const asker = this.newAsker(keys, NaN);
    const answer = this.tryAll(keys, asker, terms, false);
    return Promise.resolve('retryAfter' in answer ? undefined : leaseOf(answer, asker));
  }

  /** The first attempt needs no queue, unless earlier acquisitions go first. */
  acquire(keys: readonly string[], terms: LeaseTerms, wait: Wait): Promise<Lease> {
    const slots = terms.limit > 1 ? this.queues.unawaited(keys[0]!, terms.limit) : undefined;
    let refused = terms.limit > 1 ? undefined : keys.find((key) => this.isAwaited(key));
    if (refused === undefined) {
      const asker = this.newAsker(keys, NaN);
      const answer = this.tryAll(keys, asker, terms, true, slots);
      if (!('retryAfter' in answer)) return Promise.resolve(leaseOf(answer, asker));
      refused = answer.key;
    }
    if (wait.timeout > 0) return new Acquisition(this, keys, terms, wait).wait();
    const reason = this.whyRefused(refused, terms.limit, keys.length > 1);
    return Promise.reject(leaseTimeout(keys, wait.timeout, reason));
  }

  newAsker(keys: readonly string[], since: number): Asker {
    // The keys of one lease have one owner.
    const owner = this.owner ?? (keys.length > 1 ? `${this.name}:${this.#owners++}` : undefined);
    return { owner, since, unsure: undefined, isSpent: false, hasGone: false };
  }

  tryAll(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
    inTurn: boolean,
    slots?: readonly number[],
  ): Answer {
    if (terms.limit > 1) return this.#takeSlot(keys[0]!, asker, terms, inTurn, slots);
    const taken: Hold[] = [];
    try {
      for (const key of keys) {
        const result = this.shared(key) ?? this.#take(key, asker, terms, inTurn);
        if (typeof result === 'number') return { key, retryAfter: result };
        result.join(asker);
        taken.push(result);
      }
      return taken;
    } finally {
      if (taken.length < keys.length) void this.discard(taken, asker);
    }
  }

  async discard(holds: readonly Hold[], asker: Asker): Promise<void> {
    await Promise.allSettled([...holds].reverse().map((hold) => hold.discard(asker)));
  }

  /** The table answers everything. */
  giveBack(): void {
    return;
  }

  tokenOf(granted: number): FencingToken {
    return this.table.tokenOf(granted);
  }

  /** Also short, so that V8 inlines it. */
  free(hold: Hold): Promise<boolean> {
    return this.#freesPlainly ? this.#freeGrant(hold) : this.#freeSlow(hold);
  }

  /** The table keeps every lease as it is told to. */
  checkTerms(): void {
    return;
  }

  override ttlInStore(ttl: number): number {
    return this.tableClock === undefined ? Math.min(ttl + MARGIN, MAX_TTL) : ttl;
  }

  override refuse(): void {
    super.refuse();
    this.#plain = undefined;
  }

  /** The table knows. */
  protected override holderOf(name: string): Holder | undefined {
    const info = this.table.inspect(name, timeArgument(this.tableClock));
    if (info === undefined) return undefined;
    const own = super.holderOf(name);
    return { ...info, isOwn: own?.owner === info.owner };
  }

  /** The table has answered everything. */
  protected settled(): Promise<void> {
    return Promise.resolve();
  }

  #freeGrant(hold: Hold): Promise<boolean> {
    try {
      // Grants of a table are numbers.
      const granted = hold.granted as number;
      if (this.table.releaseGranted(hold.name, granted, hold.hint, timeArgument(this.tableClock)))
        return FREED;
      hold.notFreed();
      return NOT_FREED;
    } catch (error) {
      return failed(hold, error);
    }
  }

  #freeSlow(hold: Hold): Promise<boolean> {
    try {
      if (this.stableOwners) this.forget(hold);
      if (this.#keepForMinHold(hold)) return FREED;
    } catch (error) {
      return failed(hold, error);
    }
    return this.#freeGrant(hold);
  }

  /** The first slot that is free, of those given, or of all. */
  #takeSlot(
    key: string,
    asker: Asker,
    terms: LeaseTerms,
    inTurn: boolean,
    slots: readonly number[] = allSlots(terms.limit),
  ): Answer {
    let retryAfter = Infinity;
    for (const slot of slots) {
      const result = this.ownFor(slotKey(key, slot)) || this.#take(key, asker, { ...terms, slot }, inTurn);
      if (typeof result !== 'number') {
        result.join(asker);
        return [result];
      }
      retryAfter = Math.min(retryAfter, result);
    }
    return { key, retryAfter };
  }

  /** Else the milliseconds after which to try again at the latest. */
  #take(key: string, asker: Asker, terms: LeaseTerms, inTurn: boolean): Hold | number {
    const name = slotKey(key, terms.slot);
    const left = this.keptFor(name);
    if (left > 0) return left;
    const { owner } = asker;
    const clock = this.tableClock;
    // Not later than the grant, for when the table does not report when it granted.
    const asked = this.#sameClock ? undefined : this.schedule.now();
    const ttl = this.ttlInStore(terms.ttl);
    const time = timeArgument(clock);
    if (!inTurn) {
      return this.table.tryAcquire(name, owner, ttl, time) ? this.#granted(key, asker, terms, asked) : 0;
    }
    const retryAfter = this.table.takeTurn(name, owner, ttl, time);
    if (retryAfter === 0) return this.#granted(key, asker, terms, asked);
    return clock === undefined ? retryAfter : Math.min(retryAfter, FOREIGN_CLOCK_POLL);
  }

  #granted(key: string, asker: Asker, terms: LeaseTerms, asked: number | undefined): Hold {
    const { granted, grantedHint, grantedAt } = this.table;
    const { info, minHold } = terms;
    const { owner } = asker;
    const since = asked ?? grantedAt;
    const waited = Number.isNaN(asker.since) ? 0 : timerNow() - asker.since;
    if (minHold > 0) this.#freesPlainly = false;
    const hold = this.add(new Hold(this, key, owner, granted, grantedHint, terms, since), waited);
    if (terms.background) hold.renewals.background = new KeptInTable(hold, this);
    if (info !== undefined && info !== '') {
      this.table.setInfo(hold.name, hold.owner, info, timeArgument(this.tableClock));
    }
    return hold;
  }

  /** Before its `minHold` is over, a release only shortens the lease. False if it is over, or the lease has ended. */
  #keepForMinHold(hold: Hold): boolean {
    const left = this.minHoldLeftOf(hold);
    if (left === 0) return false;
    const time = timeArgument(this.tableClock);
    // The same owner may have been granted it again.
    if (this.table.inspect(hold.name, time)?.token !== hold.token) return false;
    // Or the table would extend it again.
    if (hold.terms.background) void hold.renewals.background?.end();
    this.keepTaken(hold.name, left);
    return this.table.renew(hold.name, hold.owner, left, time);
  }
}

/** A clock of the caller's own can fail. */
function failed(hold: Hold, error: unknown): Promise<never> {
  const failure = storeFailure('release', hold.key, error);
  hold.announceFailure('release', failure);
  return Promise.reject(failure);
}
