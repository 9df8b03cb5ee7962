import { randomBytes } from 'node:crypto';
import { threadId } from 'node:worker_threads';
import { leaseChannels } from '../../common/diagnostics.js';
import { LockError } from '../../common/errors.js';
import type { LeaseTable } from '../../engine/contract/lease-table.js';
import { LeaseStoreError, managerClosed, storeFailure } from '../contract/errors.js';
import type { FencingToken, LeaseStore } from '../contract/lease-store.js';
import type { Backoff, LeaseTerms, ManagerSettings } from '../contract/options.js';
import { Hold, type HoldContext } from '../hold/hold.js';
import { createLease, type Lease } from '../hold/lease.js';
import { directLeases, MemoryLeaseStore, timeOf, type DirectLeases } from '../memory/memory-store.js';
import { Schedule } from '../time/schedule.js';
import { Attempts, type Asked, type Asker } from '../wait/attempts.js';
import { handOn } from '../wait/polling-queue.js';
import { turnsFor, type Turns } from '../wait/table-queue.js';
import { OrderedOperations } from './ordered.js';
import { Unanswered } from './unanswered.js';

/** Made once: with every release another one would be dropped. */
const FREED = Promise.resolve(true);
const NOT_FREED = Promise.resolve(false);

/** Of what nobody holds. */
function announced(
  operation: 'acquire' | 'release',
  key: string,
  holder: string,
  error: LeaseStoreError,
): LeaseStoreError {
  if (leaseChannels.failed.hasSubscribers) {
    const nothing = { token: undefined, remaining: undefined };
    leaseChannels.failed.publish({ key, operation, error, holder, threadId, ...nothing });
  }
  return error;
}

/** Taken off the prototype once: V8 is slow to look there. */
const originals = {
  tryAcquire: Reflect.get(MemoryLeaseStore.prototype, 'tryAcquire'),
  release: Reflect.get(MemoryLeaseStore.prototype, 'release'),
};

/**
 * What a manager holds in its store: takes, shares, replaces and gives back.
 *
 * Where owners are stable, because they were named or share their leases, the store cannot tell one lease of an owner
 * from the next. So there is at most one hold of each key then, and attempts and releases of one key are sent
 * one after the other.
 */
export class Grants implements HoldContext {
  readonly store: LeaseStore;
  /** On the manager's clock. It has every hold that has not ended. */
  readonly schedule: Schedule<Hold>;
  readonly backoff: Backoff;
  readonly stableOwners: boolean;
  /** Where the store is a memory store: its table, which decides at once. */
  readonly direct: DirectLeases | undefined;
  /** Those of its table. */
  readonly turns: Turns | undefined;
  /** Whether the manager judges time by the same clock as the table, which then tells when it granted. */
  readonly #tableTells: boolean;
  /** The table, where {@link takeAtOnce} may ask it. */
  #plain: LeaseTable | undefined;
  readonly #terms: LeaseTerms;
  readonly #reentrant: boolean;
  readonly #holder: string | undefined;
  /** By key, with stable owners only: the last that was granted, until it is lost or freed. */
  readonly #latest = new Map<string, Hold>();
  readonly #ordered = new OrderedOperations();
  readonly #unanswered: Unanswered;
  readonly #name = randomBytes(9).toString('base64url');
  #named = 0;
  #closed = false;
  /** Attempts and releases that the store has not answered. */
  #underWay = 0;
  /** What to call when there is none. */
  #answered: (() => void) | undefined;
  /** Of giving back what was granted after it was closed. */
  #lateFailure: unknown;

  constructor(settings: ManagerSettings) {
    const { clock } = settings;
    this.store = settings.store ?? new MemoryLeaseStore(clock === undefined ? {} : { clock });
    this.direct = this.store instanceof MemoryLeaseStore ? directLeases(this.store) : undefined;
    this.turns = this.direct && turnsFor(this.direct.table);
    this.schedule = new Schedule(clock, false);
    this.#tableTells = this.direct !== undefined && this.direct.clock === clock;
    this.backoff = settings.backoff;
    this.#unanswered = new Unanswered((key, owner) => this.#freeUnheld(key, owner), settings.backoff);
    this.#reentrant = settings.reentrant;
    this.#holder = settings.holder ?? (settings.reentrant ? this.#name : undefined);
    this.stableOwners = this.#holder !== undefined;
    const plain = this.#tableTells && clock === undefined && !this.stableOwners;
    this.#plain = plain ? this.direct!.table : undefined;
    this.#terms = settings.terms;
  }

  /**
   * One attempt in the memory table for a manager without a clock, names or shared leases, and a call without options.
   * Undefined where that is not so, where the key is bad, and where nothing is granted: the long way finds out which.
   * Kept apart from it, and short, as is all that it calls, so that V8 inlines it.
   */
  takeAtOnce(key: string): Hold | undefined {
    const table = this.#plain;
    if (table === undefined || typeof key !== 'string' || key === '') return undefined;
    if (this.turns!.isAwaited(key) || this.store.tryAcquire !== originals.tryAcquire) return undefined;
    if (table.takeTurn(key, undefined, this.#terms.ttl, NaN) !== 0) return undefined;
    const { granted, grantedHint, grantedAt } = table;
    const hold = new Hold(this, key, undefined, granted, grantedHint, this.#terms, grantedAt);
    this.schedule.add(hold);
    if (leaseChannels.acquired.hasSubscribers) hold.announce(0);
    return hold;
  }

  /** Whether the table may be asked itself: not where the method has been replaced, by a subclass or a test. */
  get takesDirectly(): boolean {
    return this.direct !== undefined && this.store.tryAcquire === originals.tryAcquire;
  }

  /** The attempts of one acquisition. They reject with a LeaseStoreError, also for a grant that comes when its time is over. */
  attempts(key: string, terms: LeaseTerms): Attempts {
    const asked: Asked = {
      attempt: (asker) =>
        this.stableOwners
          ? this.#ordered.run(key, () => this.#attempt(key, terms, asker))
          : this.#attempt(key, terms, asker),
      giveBack: ({ owner }) => this.#unanswered.add(key, owner, terms.ttl),
    };
    return new Attempts(asked, this.#newOwner());
  }

  /** One attempt, and no more. */
  async attempt(key: string, terms: LeaseTerms): Promise<Lease | undefined> {
    const attempts = this.attempts(key, terms);
    try {
      return await attempts.ask();
    } finally {
      attempts.end();
    }
  }

  /** One attempt in the memory table: what to make a lease of at once. Undefined if another owner has the key. */
  attemptDirectly(key: string, terms: LeaseTerms): Hold | undefined {
    const shared = this.shared(key);
    if (shared) return shared;
    const { table, clock } = this.direct!;
    const owner = this.#holder;
    const asked = this.#askedAt();
    return table.tryAcquire(key, owner, terms.ttl, timeOf(clock))
      ? this.#hold(key, owner, table.granted, terms, asked ?? table.grantedAt, 0)
      : undefined;
  }

  /** One attempt, after those of other threads that have waited longer. Else the milliseconds until the next. */
  takeTurn(key: string, terms: LeaseTerms, waited: number): Hold | number {
    const shared = this.shared(key);
    if (shared) return shared;
    const { table, clock } = this.direct!;
    const owner = this.#holder;
    const asked = this.#askedAt();
    const retryAfter = table.takeTurn(key, owner, terms.ttl, timeOf(clock));
    return retryAfter === 0
      ? this.#hold(key, owner, table.granted, terms, asked ?? table.grantedAt, waited)
      : retryAfter;
  }

  tokenOf(granted: number): FencingToken {
    return this.direct!.table.tokenOf(granted);
  }

  free(hold: Hold): Promise<boolean> {
    const { direct } = this;
    const { granted } = hold;
    // A bigint is what a method has returned that took the place of the table's.
    if (direct === undefined || typeof granted !== 'number' || this.store.release !== originals.release) {
      return this.#freeByStore(hold);
    }
    try {
      if (this.stableOwners) this.#forget(hold);
      const at = timeOf(direct.clock);
      return direct.table.releaseGranted(hold.key, granted, hold.hint, at) ? FREED : NOT_FREED;
    } catch (error) {
      const failure = storeFailure('release', hold.key, error);
      hold.announceFailure('release', failure);
      return Promise.reject(failure);
    }
  }

  lost(hold: Hold): void {
    this.#forget(hold);
  }

  /** From now on every grant that is still to come is released. */
  refuse(): void {
    this.#closed = true;
    this.#plain = undefined;
  }

  /** Releases all, and what is still to be granted. Rejects with the first LeaseStoreError. */
  async close(): Promise<void> {
    const closing = await Promise.allSettled(this.schedule.entries().map((hold) => hold.close()));
    while (this.#underWay > 0) await new Promise<void>((resolve) => (this.#answered = resolve));
    await this.#unanswered.close();
    const failed = closing.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
    if (this.#lateFailure !== undefined) throw this.#lateFailure as Error;
  }

  #ended(): void {
    if (--this.#underWay > 0) return;
    this.#answered?.();
    this.#answered = undefined;
  }

  async #attempt(key: string, terms: LeaseTerms, asker: Asker): Promise<Lease | undefined> {
    const shared = this.shared(key);
    if (shared) return createLease(shared);
    // It may have had to wait for an earlier one.
    if (this.#closed) throw managerClosed();
    this.#underWay++;
    try {
      return await this.#ask(key, terms, asker);
    } finally {
      this.#ended();
    }
  }

  async #ask(key: string, terms: LeaseTerms, asker: Asker): Promise<Lease | undefined> {
    const { owner } = asker;
    const started = performance.now();
    const since = this.schedule.now();
    let token: unknown;
    try {
      token = await this.store.tryAcquire(key, owner, terms.ttl);
    } catch (error) {
      // Refused before anything was asked, unless the store failed.
      asker.unsure = !(error instanceof LockError) || error instanceof LeaseStoreError;
      throw announced('acquire', key, owner, storeFailure('acquire', key, error));
    }
    asker.unsure = false;
    if (token === undefined) {
      if (this.#closed) throw managerClosed();
      return undefined;
    }
    if (typeof token !== 'bigint') {
      throw storeFailure('acquire', key, new TypeError(`its token is a ${typeof token}, not a bigint`));
    }
    const late = this.schedule.now() >= since + terms.ttl;
    if (!late && !this.#closed) {
      return createLease(this.#hold(key, owner, token, terms, since, performance.now() - started));
    }
    await this.#free(key, owner).catch((error: unknown) => {
      if (this.#closed) this.#lateFailure ??= error;
    });
    if (this.#closed) throw managerClosed();
    throw new LeaseStoreError(
      `the lease store granted "${key}" after ${terms.ttl} ms, when it was over again`,
    );
  }

  #freeByStore(hold: Hold): Promise<boolean> {
    return this.stableOwners
      ? this.#ordered.run(hold.key, () => this.#freeLatest(hold))
      : this.#free(hold.key, hold.owner, hold);
  }

  /** Nothing that was granted to the same owner after it. */
  async #freeLatest(hold: Hold): Promise<boolean> {
    const { key } = hold;
    if (this.#latest.has(key) && this.#latest.get(key) !== hold) return false;
    const freed = await this.#free(key, hold.owner, hold);
    this.#forget(hold);
    return freed;
  }

  /** What an attempt may have been granted that failed, unless the same owner has the key by another one. */
  #freeUnheld(key: string, owner: string): Promise<boolean> {
    if (!this.stableOwners) return this.#free(key, owner);
    return this.#ordered.run(key, () => (this.#latest.has(key) ? NOT_FREED : this.#free(key, owner)));
  }

  #forget(hold: Hold): void {
    if (this.#latest.get(hold.key) === hold) this.#latest.delete(hold.key);
  }

  /** `hold`: of what was held. */
  async #free(key: string, owner: string, hold?: Hold): Promise<boolean> {
    this.#underWay++;
    try {
      const freed = await this.store.release(key, owner);
      if (freed) handOn(this.store, key);
      return freed;
    } catch (error) {
      const failure = storeFailure('release', key, error);
      if (hold === undefined) throw announced('release', key, owner, failure);
      hold.announceFailure('release', failure);
      throw failure;
    } finally {
      this.#ended();
    }
  }

  /** What acquisitions of the key are to share. */
  shared(key: string): Hold | undefined {
    if (!this.#reentrant) return undefined;
    const hold = this.#latest.get(key);
    return hold?.look() && !hold.unused ? hold : undefined;
  }

  #hold(
    key: string,
    owner: string | undefined,
    granted: FencingToken | number,
    terms: LeaseTerms,
    since: number,
    waited: number,
  ): Hold {
    const hold = new Hold(this, key, owner, granted, this.direct?.table.grantedHint ?? 0, terms, since);
    if (this.stableOwners) {
      this.#latest.get(key)?.lose('this same holder has taken it again');
      this.#latest.set(key, hold);
    }
    this.schedule.add(hold);
    if (leaseChannels.acquired.hasSubscribers) hold.announce(waited);
    return hold;
  }

  /** Where the table does not tell when it granted: a time not later than that. */
  #askedAt(): number | undefined {
    return this.#tableTells ? undefined : this.schedule.now();
  }

  #newOwner(): string {
    return this.#holder ?? `${this.#name}:${this.#named++}`;
  }
}
