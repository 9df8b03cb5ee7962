import { localNow, setClock } from '../../common/elapsed.js';
import { LockError } from '../../common/errors.js';
import { engineClock } from '../../engine/select.js';
import { BackgroundStore } from '../background/background-store.js';
import {
  cannotReopen,
  LeaseStoreError,
  leaseTimeout,
  managerClosed,
  storeFailure,
} from '../contract/errors.js';
import { grantInTime } from '../contract/late-grant.js';
import { sourceOf, type LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms, ManagerSettings } from '../contract/options.js';
import { Hold } from '../hold/hold.js';
import { createLease, type Lease } from '../hold/lease.js';
import { askOnce } from '../wait/ask-once.js';
import { Attempts, type Asker } from '../wait/attempts.js';
import { PollingAcquisition, PollingQueues } from '../wait/polling-queue.js';
import { Grants } from './grants.js';
import { announceFailure, StoreOperations } from './store-operations.js';
import { Unanswered } from './unanswered.js';

/** Grants of a store that must be asked. */
export class StoreGrants extends Grants {
  /** A store does not say when a lease ended, only that it is gone. */
  readonly looksBeforeRelease = true;
  readonly #operations: StoreOperations;
  readonly #unanswered: Unanswered;
  readonly #queues: PollingQueues;
  /** Renews leases while the event loop is blocked. Undefined if the store cannot be opened by another thread. */
  readonly #background: BackgroundStore | undefined;
  #owners = 0;
  /** The first failure to give back a grant that came after the manager was closed. */
  #lateFailure: unknown;

  constructor(store: LeaseStore, settings: ManagerSettings) {
    super(store, settings, localNow);
    const clock = engineClock();
    if (clock) setClock(clock);
    const source = settings.clock === undefined ? sourceOf(store) : undefined;
    this.#background = source && new BackgroundStore(source, settings.backoff);
    const { backoff, stableOwners } = this;
    this.#operations = new StoreOperations({
      store,
      stableOwners,
      latest: (key) => this.latest(key),
      forget: (hold) => this.forget(hold),
    });
    this.#unanswered = new Unanswered((key, owner) => this.#operations.freeUnheld(key, owner), backoff);
    this.#queues = new PollingQueues({ store, backoff, schedule: this.waits.schedule, stableOwners });
  }

  takeAtOnce(): undefined {
    return undefined;
  }

  tryAcquire(key: string, terms: LeaseTerms, signal: AbortSignal | undefined): Promise<Lease | undefined> {
    return askOnce(this.#attempts(key, terms), signal);
  }

  acquire(key: string, terms: LeaseTerms, timeout: number, signal: AbortSignal | undefined): Promise<Lease> {
    if (timeout === 0) return this.#acquireOnce(key, terms, signal);
    const wait = { key, timeout, signal, waits: this.waits };
    return this.waits.start(new PollingAcquisition(wait, this.#queues, this.#attempts(key, terms)));
  }

  tokenOf(): never {
    throw new TypeError('a grant of a store is its token');
  }

  checkTerms({ background }: LeaseTerms): void {
    if (background && this.#background === undefined) throw cannotReopen();
  }

  free(hold: Hold): Promise<boolean> {
    return this.#operations.free(hold);
  }

  override async close(): Promise<void> {
    await super.close();
    if (this.#lateFailure !== undefined) throw this.#lateFailure as Error;
  }

  /** With stable owners, later operations on the key wait until nothing renews the hold any more. */
  override lost(hold: Hold): void {
    super.lost(hold);
    if (!hold.delegated || !this.stableOwners) return;
    void this.#operations.inOrder(hold.key, () => hold.renewals.detach());
  }

  protected async settled(): Promise<void> {
    await this.#operations.settled();
    await this.#unanswered.close();
    this.#background?.close();
  }

  async #acquireOnce(key: string, terms: LeaseTerms, signal: AbortSignal | undefined): Promise<Lease> {
    let failure: unknown;
    try {
      const lease = await this.tryAcquire(key, terms, signal);
      if (lease) return lease;
    } catch (error) {
      if (signal?.aborted === true || !(error instanceof LeaseStoreError)) throw error;
      failure = error;
    }
    throw leaseTimeout(key, 0, failure);
  }

  /** The attempts of one acquisition, all by one owner. */
  #attempts(key: string, terms: LeaseTerms): Attempts {
    const asked = {
      attempt: (asker: Asker) => this.#operations.inOrder(key, () => this.#attempt(key, terms, asker)),
      giveBack: ({ owner }: Asker) => this.#unanswered.add(key, owner, terms.ttl),
    };
    return new Attempts(asked, this.holder ?? `${this.name}:${this.#owners++}`);
  }

  async #attempt(key: string, terms: LeaseTerms, asker: Asker): Promise<Lease | undefined> {
    const shared = this.shared(key);
    if (shared) return createLease(shared);
    // The manager may have been closed while this waited for an earlier operation.
    if (this.isClosed) throw managerClosed();
    return this.#operations.count(() => this.#ask(key, terms, asker));
  }

  async #ask(key: string, terms: LeaseTerms, asker: Asker): Promise<Lease | undefined> {
    const { owner } = asker;
    const { ttl, background } = terms;
    if (background) await this.#background!.ready().catch((error: unknown) => failBackground(key, error));
    // The store will not be able to distinguish the new lease from this one.
    const latest = this.latest(key);
    if (latest?.delegated === true) await latest.renewals.takeOver();
    const started = performance.now();
    const at = this.schedule.now();
    let token: unknown;
    try {
      token = await this.store.tryAcquire(key, owner, ttl);
    } catch (error) {
      // With any other LockError the store was not asked.
      asker.unsure = !(error instanceof LockError) || error instanceof LeaseStoreError;
      const failure = storeFailure('acquire', key, error);
      announceFailure('acquire', key, owner, failure);
      throw failure;
    }
    asker.unsure = false;
    if (token === undefined && !this.isClosed) return undefined;
    if (token === undefined) throw managerClosed();
    if (typeof token !== 'bigint') {
      throw storeFailure('acquire', key, new TypeError(`its token is a ${typeof token}, not a bigint`));
    }
    // Once the manager is closed, no grant is in time.
    const now = this.isClosed ? Infinity : this.schedule.now();
    const giveBack = (): Promise<void> => this.#giveBack(key, owner);
    const granted = grantInTime(token, { store: 'the lease store', at, ttl }, now, giveBack);
    if (typeof granted === 'bigint') {
      const hold = new Hold(this, key, owner, granted, 0, terms, at);
      this.add(hold, performance.now() - started);
      if (background) this.#background!.add(hold);
      return createLease(hold);
    }
    return granted.catch((error: unknown) => {
      throw this.isClosed ? managerClosed() : error;
    });
  }

  async #giveBack(key: string, owner: string): Promise<void> {
    try {
      await this.#operations.release(key, owner);
    } catch (error) {
      if (this.isClosed) this.#lateFailure ??= error;
    }
  }
}

function failBackground(key: string, error: unknown): never {
  throw storeFailure('renew in the background', key, error);
}
