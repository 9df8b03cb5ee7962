import { localNow, setClock } from '../../common/elapsed.js';
import { performance } from '../../common/host.js';
import { engineClock } from '../../engine/select.js';
import { BackgroundStore } from '../background/renewing-thread.js';
import { cannotReopen, LeaseStoreError, managerClosed, storeFailure } from '../contract/errors.js';
import { sourceOf, type FencingToken, type LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms, ManagerSettings, Wait } from '../contract/options.js';
import { Hold } from '../hold/hold.js';
import type { Lease } from '../hold/lease.js';
import { Acquisition, type Answer, type Asker } from './acquisition.js';
import { Grants } from './grants.js';
import { PollingQueues } from './polling-queue.js';
import { leftOver, StoreAdapter } from './store-adapter.js';
import { announceFailure, StoreOperations } from './store-operations.js';
import { Unanswered } from './unanswered.js';

/** Grants of a store that must be asked. */
export class StoreGrants extends Grants {
  /** A store does not say when a lease ended, only that it is gone. */
  readonly looksBeforeRelease = true;
  readonly tableClock = undefined;
  readonly queues: PollingQueues;
  readonly #adapter: StoreAdapter;
  readonly #operations: StoreOperations;
  readonly #unanswered: Unanswered;
  /** Renews leases while the event loop is blocked. Undefined if the store cannot be opened by another thread. */
  readonly #background: BackgroundStore | undefined;
  #owners = 0;
  /** The first failure to give back a grant that came after the manager was closed. */
  #lateFailure: unknown;

  constructor(store: LeaseStore, settings: ManagerSettings) {
    const adapter = new StoreAdapter(store);
    super(adapter, settings, localNow);
    const clock = engineClock();
    if (clock) setClock(clock);
    const source = settings.clock === undefined ? sourceOf(store) : undefined;
    this.#background = source && new BackgroundStore(source, settings.backoff);
    const { backoff, stableOwners } = this;
    this.#adapter = adapter;
    this.#operations = new StoreOperations(this);
    this.#unanswered = new Unanswered((key, owner) => this.#operations.freeUnheld(key, owner), backoff);
    this.queues = new PollingQueues({ store, backoff, schedule: this.waiting.schedule, stableOwners });
  }

  takeAtOnce(): undefined {
    return undefined;
  }

  tryAcquire(
    keys: readonly string[],
    terms: LeaseTerms,
    signal: AbortSignal | undefined,
  ): Promise<Lease | undefined> {
    return new Acquisition(this, keys, terms, { timeout: 0, signal }).once();
  }

  acquire(keys: readonly string[], terms: LeaseTerms, wait: Wait): Promise<Lease> {
    const acquisition = new Acquisition(this, keys, terms, wait);
    return wait.timeout > 0 ? acquisition.wait() : this.#acquireOnce(acquisition, wait.signal);
  }

  newAsker(_keys: readonly string[], since: number): Asker {
    const owner = this.owner ?? `${this.name}:${this.#owners++}`;
    return { owner, since, unsure: undefined, isSpent: false };
  }

  tryAll(keys: readonly string[], asker: Asker, terms: LeaseTerms): Promise<Answer> {
    return this.#operations.inOrder(keys, () =>
      this.stableOwners ? this.#tryShared(keys, asker, terms) : this.#tryAll(keys, asker, terms),
    );
  }

  async discard(holds: readonly Hold[], asker: Asker, terms: LeaseTerms): Promise<void> {
    const reversed = [...holds].reverse();
    const results = await Promise.allSettled(reversed.map((hold) => hold.discard(asker)));
    results.forEach(({ status }, i) => {
      if (status === 'rejected') leftOver(asker, reversed[i]!.key);
    });
    this.giveBack(asker, terms);
  }

  giveBack(asker: Asker, { ttl }: LeaseTerms): void {
    const { unsure } = asker;
    asker.unsure = undefined;
    for (const key of unsure ?? []) this.#unanswered.add(key, asker.owner!, ttl);
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
    void this.#operations.inOrder([hold.key], () => hold.renewals.detach());
  }

  protected async settled(): Promise<void> {
    await this.#operations.settled();
    await this.#unanswered.close();
    this.#background?.close();
  }

  async #acquireOnce(acquisition: Acquisition, signal: AbortSignal | undefined): Promise<Lease> {
    try {
      const lease = await acquisition.once();
      if (lease) return lease;
    } catch (error) {
      if (signal?.aborted === true || !(error instanceof LeaseStoreError)) throw error;
    }
    throw acquisition.timeoutError();
  }

  /** Joins the leases that this owner has, if it shares them, and asks for the other keys. */
  async #tryShared(keys: readonly string[], asker: Asker, terms: LeaseTerms): Promise<Answer> {
    const joined: Hold[] = [];
    const others: string[] = [];
    for (const key of keys) {
      const hold = this.shared(key);
      if (hold === undefined) {
        others.push(key);
      } else {
        hold.join(asker);
        joined.push(hold);
      }
    }
    if (others.length === 0) return joined;
    try {
      const kept = others.find((key) => this.minHoldLeft(key) > 0);
      const answer: Answer =
        kept === undefined
          ? await this.#tryAll(others, asker, terms)
          : { key: kept, retryAfter: this.minHoldLeft(kept) };
      return 'retryAfter' in answer ? answer : [...joined.splice(0), ...answer];
    } finally {
      if (joined.length > 0) await this.discard(joined, asker, terms);
    }
  }

  /** Asks the store: at once, unless renewal in another thread must be prepared or ended first. */
  #tryAll(keys: readonly string[], asker: Asker, terms: LeaseTerms): Promise<Answer> {
    // The manager may have been closed while this waited for an earlier operation.
    if (this.isClosed) return Promise.reject(managerClosed());
    const waits = terms.background || keys.some((key) => this.latest(key)?.delegated === true);
    const ask = (): Promise<Answer> => this.#ask(keys, asker, terms);
    return this.#operations.count(waits ? () => this.#prepare(keys, terms).then(ask) : ask);
  }

  async #prepare(keys: readonly string[], { background }: LeaseTerms): Promise<void> {
    if (background) await this.#background!.ready().catch((error: unknown) => failBackground(keys, error));
    for (const key of keys) {
      // The store will not be able to distinguish the new lease from this one.
      const latest = this.latest(key);
      if (latest?.delegated === true) await latest.renewals.takeOver();
    }
  }

  async #ask(keys: readonly string[], asker: Asker, terms: LeaseTerms): Promise<Answer> {
    const owner = asker.owner!;
    const { ttl } = terms;
    const started = performance.now();
    const at = this.schedule.now();
    let answer: readonly FencingToken[] | number;
    try {
      answer = await this.#adapter.tryAcquireAll(keys, asker, terms);
    } catch (error) {
      const failure = storeFailure('acquire', keys, error);
      for (const key of keys) announceFailure('acquire', key, owner, failure);
      throw failure;
    }
    if (typeof answer === 'number') {
      if (this.isClosed) throw managerClosed();
      return { key: keyAt(keys, answer), retryAfter: Infinity };
    }
    checkTokens(keys, answer);
    // The time of a lease counts from before the request was sent.
    if (this.isClosed || this.schedule.now() - at >= ttl) {
      await this.#giveBackLate(keys, owner);
      if (this.isClosed) throw managerClosed();
      throw new LeaseStoreError(
        `the lease store granted a lease of ${ttl} ms when that time was already over; the grant was given back`,
      );
    }
    const tokens = answer;
    const waited = performance.now() - started;
    const holds = keys.map((key, i) => new Hold(this, key, owner, tokens[i]!, 0, terms, at));
    for (const hold of holds) {
      this.add(hold, waited);
      if (terms.background) this.#background!.add(hold);
      hold.join(asker);
    }
    return holds;
  }

  async #giveBackLate(keys: readonly string[], owner: string): Promise<void> {
    const releases = [...keys].reverse().map((key) => this.#operations.release(key, owner));
    for (const result of await Promise.allSettled(releases)) {
      if (result.status === 'rejected' && this.isClosed) this.#lateFailure ??= result.reason;
    }
  }
}

function keyAt(keys: readonly string[], place: number): string {
  const key = keys[place];
  if (key !== undefined) return key;
  throw storeFailure('acquire', keys, new TypeError(`${place} is not the place of a key`));
}

function checkTokens(keys: readonly string[], tokens: unknown): void {
  const list = tokens as readonly unknown[];
  const wrong = list.find((token) => typeof token !== 'bigint');
  if (wrong !== undefined || list.length !== keys.length) {
    const what =
      list.length === 1 ? `its token is a ${typeof wrong}, not a bigint` : 'it gave no list of bigints';
    throw storeFailure('acquire', keys, new TypeError(what));
  }
}

function failBackground(keys: readonly string[], error: unknown): never {
  throw storeFailure('renew in the background', keys, error);
}
