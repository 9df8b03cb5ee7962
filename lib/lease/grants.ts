import { randomBytes } from 'node:crypto';
import { LeaseStoreError, managerClosed, storeFailure } from './errors.js';
import { Hold, type HoldContext } from './hold.js';
import { HoldList } from './hold-list.js';
import { createLease, type Lease } from './lease.js';
import type { FencingToken, LeaseStore } from './lease-store.js';
import { directLeases, MemoryLeaseStore, type DirectLeases } from './memory-store.js';
import type { Backoff, LeaseTerms, ManagerSettings } from './options.js';
import { OrderedOperations } from './ordered.js';
import { Schedule } from './schedule.js';
import { turnsFor, type Turns } from './turns.js';

const memory = MemoryLeaseStore.prototype;

/**
 * What a manager holds in its store: takes, shares, replaces and gives back.
 *
 * Where owners are stable, because they were named or share their leases, the store cannot tell one lease of an owner
 * from the next. So there is at most one hold of each key then, and attempts and releases of one key are sent
 * one after the other.
 */
export class Grants implements HoldContext {
  readonly store: LeaseStore;
  /** On the manager's clock. */
  readonly schedule: Schedule;
  readonly backoff: Backoff;
  readonly stableOwners: boolean;
  /** Where the store is a memory store: its table, which decides at once. */
  readonly direct: DirectLeases | undefined;
  /** Those of its table. */
  readonly turns: Turns | undefined;
  readonly #reentrant: boolean;
  readonly #holder: string | undefined;
  readonly #holds = new HoldList();
  /** By key, with stable owners only: the last that was granted, until it is lost or freed. */
  readonly #latest = new Map<string, Hold>();
  readonly #ordered = new OrderedOperations();
  readonly #name = randomBytes(9).toString('base64url');
  #named = 0;
  #closed = false;

  constructor(settings: ManagerSettings) {
    const { clock } = settings;
    this.store = settings.store ?? new MemoryLeaseStore(clock === undefined ? {} : { clock });
    this.direct = this.store instanceof MemoryLeaseStore ? directLeases(this.store) : undefined;
    this.turns = this.direct && turnsFor(this.direct.table);
    this.schedule = new Schedule(clock, false);
    this.backoff = settings.backoff;
    this.#reentrant = settings.reentrant;
    this.#holder = settings.holder ?? (settings.reentrant ? this.#name : undefined);
    this.stableOwners = this.#holder !== undefined;
  }

  /** Whether the table may be asked itself: not where the method has been replaced, by a subclass or a test. */
  get takesDirectly(): boolean {
    return this.direct !== undefined && this.store.tryAcquire === memory.tryAcquire;
  }

  get #freesDirectly(): boolean {
    return this.direct !== undefined && this.store.release === memory.release;
  }

  /** Rejects with a LeaseStoreError, also for a grant that comes when its time is over. */
  attempt(key: string, terms: LeaseTerms): Promise<Lease | undefined> {
    if (!this.stableOwners) return this.#attempt(key, terms);
    return this.#ordered.run(key, () => this.#attempt(key, terms));
  }

  /** One attempt in the memory table. Undefined if another owner has the key. */
  attemptDirectly(key: string, terms: LeaseTerms): Lease | undefined {
    const shared = this.#join(key);
    if (shared) return shared;
    const { table, at } = this.direct!;
    const owner = this.#holder;
    const since = this.schedule.now();
    const token = table.tryAcquire(key, owner, terms.ttl, at());
    return token === undefined ? undefined : this.#hold(key, owner, token, terms, since, 0);
  }

  /** One attempt, after those of other threads that have waited longer. Else the milliseconds until the next. */
  takeTurn(key: string, terms: LeaseTerms, waited: number): Lease | number {
    const shared = this.#join(key);
    if (shared) return shared;
    const { table, at } = this.direct!;
    const owner = this.#holder;
    const since = this.schedule.now();
    const token = table.takeTurn(key, owner, terms.ttl, at());
    return typeof token === 'number' ? token : this.#hold(key, owner, token, terms, since, waited);
  }

  free(hold: Hold): Promise<boolean> {
    const { key } = hold;
    if (this.#freesDirectly) {
      const { table, at } = this.direct!;
      try {
        this.#forget(hold);
        return Promise.resolve(table.release(key, hold.token, at()));
      } catch (error) {
        return Promise.reject(storeFailure('release', key, error));
      }
    }
    return this.stableOwners
      ? this.#ordered.run(key, () => this.#freeLatest(hold))
      : this.#free(key, hold.owner);
  }

  ended(hold: Hold): void {
    this.#holds.remove(hold);
    if (hold.lostReason !== undefined) this.#forget(hold);
  }

  /** Releases all, and every grant that is still to come. Rejects with the first LeaseStoreError. */
  async close(): Promise<void> {
    this.#closed = true;
    const closing = await Promise.allSettled(this.#holds.toArray().map((hold) => hold.close()));
    const failed = closing.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async #attempt(key: string, terms: LeaseTerms): Promise<Lease | undefined> {
    const shared = this.#join(key);
    if (shared) return shared;
    const owner = this.#newOwner();
    const started = performance.now();
    const since = this.schedule.now();
    let token: unknown;
    try {
      token = await this.store.tryAcquire(key, owner, terms.ttl);
    } catch (error) {
      throw storeFailure('acquire', key, error);
    }
    if (token === undefined) {
      if (this.#closed) throw managerClosed();
      return undefined;
    }
    if (typeof token !== 'bigint') {
      throw storeFailure('acquire', key, new TypeError(`its token is a ${typeof token}, not a bigint`));
    }
    const late = this.schedule.now() >= since + terms.ttl;
    if (!late && !this.#closed) {
      return this.#hold(key, owner, token, terms, since, performance.now() - started);
    }
    await this.#free(key, owner).catch(() => undefined);
    if (this.#closed) throw managerClosed();
    throw new LeaseStoreError(
      `the lease store granted "${key}" after ${terms.ttl} ms, when it was over again`,
    );
  }

  /** Nothing that was granted to the same owner after it. */
  async #freeLatest(hold: Hold): Promise<boolean> {
    const { key } = hold;
    if (this.#latest.has(key) && this.#latest.get(key) !== hold) return false;
    const freed = await this.#free(key, hold.owner);
    this.#forget(hold);
    return freed;
  }

  #forget(hold: Hold): void {
    if (this.stableOwners && this.#latest.get(hold.key) === hold) this.#latest.delete(hold.key);
  }

  async #free(key: string, owner: string): Promise<boolean> {
    try {
      return await this.store.release(key, owner);
    } catch (error) {
      throw storeFailure('release', key, error);
    }
  }

  #join(key: string): Lease | undefined {
    if (!this.#reentrant) return undefined;
    const hold = this.#latest.get(key);
    return hold?.look() ? createLease(hold) : undefined;
  }

  #hold(
    key: string,
    owner: string | undefined,
    token: FencingToken,
    terms: LeaseTerms,
    since: number,
    waited: number,
  ): Lease {
    const hold = new Hold(this, key, owner, token, terms, since);
    if (this.stableOwners) {
      this.#latest.get(key)?.lose('this same holder has taken it again');
      this.#latest.set(key, hold);
    }
    this.#holds.add(hold);
    hold.announce(waited);
    return createLease(hold);
  }

  #newOwner(): string {
    return this.#holder ?? `${this.#name}:${this.#named++}`;
  }
}
