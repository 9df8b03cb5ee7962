import { leaseChannels } from '../../common/diagnostics.js';
import { keyName, quotedKeys } from '../../common/errors.js';
import { pause } from '../../common/pause.js';
import { randomName } from '../../common/random-name.js';
import { managerClosed } from '../contract/errors.js';
import type { Clock, FencingToken, InfoLeaseStore } from '../contract/lease-store.js';
import type { Backoff, LeaseTerms, ManagerSettings, Wait } from '../contract/options.js';
import { slotKeys } from '../contract/slots.js';
import { announceGrant } from '../hold/announcements.js';
import type { Hold, HoldContext } from '../hold/hold.js';
import type { Lease } from '../hold/lease.js';
import { Schedule } from '../time/schedule.js';
import type { Acquisition, Answer, Asker, Queues } from './acquisition.js';
import { freeAll } from './free-all.js';

/** Milliseconds between two looks at whether all leases have ended. To tell of each end would make releases slower. */
const DRAIN_LOOK = 5;
/** Below this number of released keys, no release searches for those whose `minHold` has passed. */
const FEW_KEPT = 100;
/** With more holds, no error says which of them are this manager's: each timeout would search all of them. */
const FEW_HOLDS = 1000;

/** The holder of a key of the store. */
export interface Holder {
  readonly owner: string;
  /** Milliseconds. */
  readonly remaining: number;
  /** Whether this manager holds it. */
  readonly isOwn: boolean;
}

/**
 * What a manager holds in its store: how it takes, shares, replaces and frees leases. The memory store's table decides
 * at once and calls its waiters (`TableGrants`); every other store must be asked (`StoreGrants`).
 *
 * Owners are stable if they are named or share their leases. The store then cannot distinguish one lease of an owner
 * from the next, so there is at most one hold of each key.
 */
export abstract class Grants implements HoldContext {
  /** Where renewals go. */
  readonly store: Pick<InfoLeaseStore, 'renew'>;
  readonly schedule: Schedule<Hold>;
  readonly backoff: Backoff;
  readonly stableOwners: boolean;
  abstract readonly looksBeforeRelease: boolean;
  /** The owner of all leases; undefined if each acquisition has its own. */
  protected readonly owner: string | undefined;
  /** Distinguishes the owners of this manager from those of others. */
  protected readonly name = randomName();
  /** The terms of a lease whose options say nothing. */
  protected readonly terms: LeaseTerms;
  /** The acquisitions that wait, and their timeouts, in real time whatever the manager's clock is. They keep the process alive. */
  readonly waiting = { acquisitions: new Set<Acquisition>(), schedule: new Schedule(undefined, true) };
  abstract readonly queues: Queues;
  /** The clock of the memory store's table, if that is not the table's own. */
  abstract readonly tableClock: Clock | undefined;
  protected isClosed = false;
  readonly #reentrant: boolean;
  /** With stable owners only, for each key of the store: the last hold that was granted, until it is lost or freed. */
  readonly #latest = new Map<string, Hold>();

  /** With stable owners only, for each key: until when a key that was released too early stays taken, on the manager's clock. */
  readonly #kept = new Map<string, number>();
  /** How many of them are kept before those are removed whose time has passed. */
  #purgeAt = FEW_KEPT;

  /** `ownNow`: the manager's clock, if it is given none. Default: `timerNow`. */
  constructor(store: Pick<InfoLeaseStore, 'renew'>, settings: ManagerSettings, ownNow?: () => number) {
    this.store = store;
    this.schedule = new Schedule(settings.clock, false, ownNow);
    this.backoff = settings.backoff;
    this.#reentrant = settings.reentrant;
    this.owner = settings.holder ?? (settings.reentrant ? this.name : undefined);
    this.stableOwners = this.owner !== undefined;
    this.terms = settings.terms;
  }

  /**
   * One attempt of an acquisition without options, if it can be decided at once. Undefined if it cannot, if the key is
   * bad, or if nothing is granted: {@link acquire} finds out which.
   */
  abstract takeAtOnce(key: string): Hold | undefined;

  /** One attempt. Undefined if another owner has one of the keys. Rejects if the store fails. */
  abstract tryAcquire(
    keys: readonly string[],
    terms: LeaseTerms,
    signal: AbortSignal | undefined,
  ): Promise<Lease | undefined>;

  /** Rejects with a LockTimeoutError, or with the signal's reason. */
  abstract acquire(keys: readonly string[], terms: LeaseTerms, wait: Wait): Promise<Lease>;

  /** For an acquisition of these keys: with an owner of its own, unless owners are stable. */
  abstract newAsker(keys: readonly string[], since: number): Asker;

  /**
   * One attempt of an acquisition, all or none; of a key with a limit, at any of its slots. `inTurn`: after those of other
   * threads that have waited longer. `slots`: those to try, in that order, if not all. Rejects with a LeaseStoreError.
   */
  abstract tryAll(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
    inTurn: boolean,
    slots?: readonly number[],
  ): Answer | Promise<Answer>;

  /** Releases, in reverse, what the asker uses. Never rejects. */
  abstract discard(holds: readonly Hold[], asker: Asker, terms: LeaseTerms): Promise<void>;

  /** Frees what the asker may have been granted without an answer. Never throws. */
  abstract giveBack(asker: Asker, terms: LeaseTerms): void;

  /** Whether another acquisition waits for the key, and goes first. */
  isAwaited(key: string): boolean {
    return this.queues.isAwaited(key) && this.shared(key) === undefined;
  }

  /**
   * Why the store refuses the key, with as much of its holder as is known without asking. `isNamed`: the text names the key,
   * because there are others.
   */
  whyRefused(key: string, limit: number, isNamed: boolean): string {
    if (limit > 1) {
      const names = new Set(slotKeys(key, limit));
      const own = this.#fewHolds().filter((hold) => names.has(hold.name) && hold.look()).length;
      return `all ${limit} slots are held${own === 0 ? '' : `, ${own} of them by this LeaseManager`}`;
    }
    const held = `${isNamed ? quotedKeys([key]) : 'it'} is held`;
    let holder: Holder | undefined;
    try {
      holder = this.holderOf(key);
    } catch {
      // A clock of the caller's own failed. The error is about the key.
    }
    if (holder === undefined) return held;
    const { owner, remaining, isOwn } = holder;
    const by = isOwn ? `this LeaseManager as ${keyName(owner)}` : keyName(owner);
    return `${held} by ${by}, for ${Math.ceil(remaining)} ms unless it is renewed`;
  }

  /**
   * The holder of a key of the store, as far as is known without asking, or a long search: undefined unless this manager
   * holds it.
   */
  protected holderOf(name: string): Holder | undefined {
    const holds = this.stableOwners ? [this.latest(name)] : this.#fewHolds();
    const own = holds.find((hold) => hold?.name === name && hold.look());
    if (own === undefined) return undefined;
    return { owner: own.owner, remaining: own.expiresAt - this.schedule.now(), isOwn: true };
  }

  abstract tokenOf(granted: number): FencingToken;

  abstract free(hold: Hold): Promise<boolean>;

  /** Throws if leases with these terms cannot be renewed as they say. */
  abstract checkTerms(terms: LeaseTerms): void;

  renew(hold: Hold, ttl: number, info?: string): Promise<boolean> {
    const { name, owner } = hold;
    const kept = this.ttlInStore(ttl);
    return info === undefined
      ? this.store.renew(name, owner, kept)
      : this.store.renew(name, owner, kept, info);
  }

  /** The TTL to ask the store for. Subclasses may add what its clock needs. */
  ttlInStore(ttl: number): number {
    return ttl;
  }

  lost(hold: Hold): void {
    this.forget(hold);
  }

  /** Milliseconds for which the key must stay taken after its release; 0 for none. */
  minHoldLeftOf({ since, terms: { minHold } }: Hold): number {
    if (minHold === 0) return 0;
    return Math.min(Math.max(0, Math.ceil(since + minHold - this.schedule.now())), minHold);
  }

  /** With stable owners: this manager does not take the key again before its `minHold` is over. */
  protected minHoldLeft(key: string): number {
    const until = this.#kept.get(key);
    if (until === undefined) return 0;
    const left = until - this.schedule.now();
    if (left <= 0) this.#kept.delete(key);
    return Math.max(0, left);
  }

  keepTaken(key: string, milliseconds: number): void {
    if (!this.stableOwners) return;
    const now = this.schedule.now();
    this.#kept.set(key, now + milliseconds);
    // All entries are looked at once for each doubling, so that thousands of releases take linear time.
    if (this.#kept.size < this.#purgeAt) return;
    for (const [other, until] of this.#kept) if (until <= now) this.#kept.delete(other);
    this.#purgeAt = Math.max(FEW_KEPT, 2 * this.#kept.size);
  }

  /** From now on every later grant is released. */
  refuse(): void {
    this.isClosed = true;
  }

  /** Ends waiting acquisitions. Resolves when nothing is held any more, or when the signal aborts. */
  async drain(ends: AbortSignal): Promise<void> {
    this.#endWaiting();
    while (!ends.aborted && this.schedule.size > 0) await pause(DRAIN_LOOK, ends);
  }

  /**
   * Ends waiting acquisitions, and releases everything, including later grants. Holders learn that their leases are lost.
   * Rejects with the error of a release that failed until its lease expired.
   */
  async close(): Promise<void> {
    this.#endWaiting();
    const holds = this.schedule.entries();
    for (const hold of holds) hold.lose('its manager was closed');
    const failed = await freeAll(holds, (hold) => this.free(hold), this);
    await this.settled();
    if (failed) throw failed;
  }

  /** All holds; none if they are many. */
  #fewHolds(): readonly Hold[] {
    return this.schedule.size > FEW_HOLDS ? [] : this.schedule.entries();
  }

  #endWaiting(): void {
    for (const acquisition of [...this.waiting.acquisitions]) acquisition.fail(managerClosed());
  }

  /** Resolves when the store has answered everything. */
  protected abstract settled(): Promise<void>;

  /** The hold that acquisitions of the key must share, if there is one. */
  protected shared(key: string): Hold | undefined {
    if (!this.#reentrant) return undefined;
    const hold = this.#latest.get(key);
    return hold?.look() && !hold.unused && hold.terms.limit === 1 ? hold : undefined;
  }

  /** With stable owners: the last hold of the key of the store, until it is lost or freed. */
  latest(name: string): Hold | undefined {
    return this.#latest.get(name);
  }

  /**
   * With stable owners: milliseconds for which this manager must not take the key of the store for a lease that is not a
   * permit, though the store would grant it to the same owner again. A reentrant manager shares leases, but no permits.
   */
  protected keptFor(name: string): number {
    const limit = this.latest(name)?.terms.limit ?? 1;
    return this.#reentrant && limit > 1 ? this.ownFor(name) : this.minHoldLeft(name);
  }

  /**
   * With stable owners: milliseconds for which a lease of this manager has the key of the store, or keeps it. The store
   * would grant it to the same owner again. 0 if it may be asked.
   */
  protected ownFor(name: string): number {
    const latest = this.latest(name);
    return latest?.look() === true ? latest.expiresAt - this.schedule.now() : this.minHoldLeft(name);
  }

  forget(hold: Hold): void {
    if (this.#latest.get(hold.name) === hold) this.#latest.delete(hold.name);
  }

  /** With stable owners: the store has granted the key to the same owner again, in place of the last hold. */
  protected replaced(name: string): void {
    this.#latest.get(name)?.lose('this same holder has taken it again');
  }

  /** Records a hold that was granted: it is held from now on. */
  protected add(hold: Hold, waited: number): Hold {
    if (this.stableOwners) {
      this.replaced(hold.name);
      this.#latest.set(hold.name, hold);
    }
    this.schedule.add(hold);
    if (leaseChannels.acquired.hasSubscribers) announceGrant(hold, waited);
    return hold;
  }
}
