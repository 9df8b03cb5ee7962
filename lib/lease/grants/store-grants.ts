import { localNow, setClock } from '../../common/elapsed.js';
import { engineClock } from '../../engine/select.js';
import { BackgroundStore } from '../background/background-store.js';
import {
  cannotReopen,
  LeaseStoreError,
  leaseTimeout,
  managerClosed,
  storeFailure,
} from '../contract/errors.js';
import { sourceOf, type LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms, ManagerSettings } from '../contract/options.js';
import type { Hold } from '../hold/hold.js';
import { createLease, type Lease } from '../hold/lease.js';
import { askOnce } from '../wait/ask-once.js';
import { Attempts, type Asker } from '../wait/attempts.js';
import { PollingAcquisition, PollingQueues } from '../wait/polling-queue.js';
import type { Round } from '../wait/several.js';
import { Grants } from './grants.js';
import { StoreAsking, type AskContext } from './store-asking.js';
import { StoreOperations } from './store-operations.js';
import { StoreRound, type RoundContext } from './store-round.js';
import { Together } from './together.js';
import { Unanswered } from './unanswered.js';

/** Grants of a store that must be asked. */
export class StoreGrants extends Grants implements AskContext {
  /** A store does not say when a lease ended, only that it is gone. */
  readonly looksBeforeRelease = true;
  readonly #together: Together;
  readonly #operations: StoreOperations;
  readonly #asking: StoreAsking;
  readonly #unanswered: Unanswered;
  readonly #queues: PollingQueues;
  /** Renews leases while the event loop is blocked. Undefined if the store cannot be opened by another thread. */
  readonly #background: BackgroundStore | undefined;
  #owners = 0;

  constructor(store: LeaseStore, settings: ManagerSettings) {
    const together = new Together(store);
    super(together, settings, localNow);
    const clock = engineClock();
    if (clock) setClock(clock);
    const source = settings.clock === undefined ? sourceOf(store) : undefined;
    this.#background = source && new BackgroundStore(source, settings.backoff);
    const { backoff, stableOwners } = this;
    this.#together = together;
    this.#operations = new StoreOperations({
      store,
      releases: together,
      stableOwners,
      latest: (key) => this.latest(key),
      forget: (hold) => this.forget(hold),
      restOf: (hold) => this.restOf(hold),
      letRest: (...of) => this.letRest(...of),
    });
    this.#asking = new StoreAsking(store, this.#operations, this);
    this.#unanswered = new Unanswered((key, owner) => this.#operations.freeUnheld(key, owner), backoff);
    this.#queues = new PollingQueues({ store, backoff, schedule: this.waits.schedule, stableOwners });
  }

  takeAtOnce(): undefined {
    return undefined;
  }

  tryAcquire(key: string, terms: LeaseTerms, signal: AbortSignal | undefined): Promise<Lease | undefined> {
    return askOnce(this.#attempts(key, terms, this.#owner()), signal);
  }

  acquire(key: string, terms: LeaseTerms, timeout: number, signal: AbortSignal | undefined): Promise<Lease> {
    return timeout === 0
      ? this.#acquireOnce(key, terms, signal)
      : this.#wait(key, terms, this.#owner(), timeout, signal);
  }

  beginRound(terms: LeaseTerms, inTurn: boolean): Round {
    const context: RoundContext = {
      attemptAll: async (keys, owner, unsure, taken) =>
        (inTurn ? this.#awaited(keys) : undefined) ??
        this.#operations.inOrder(keys, () => this.#attemptAll(keys, terms, owner, unsure, taken)),
      waitFor: (key, owner, timeout, signal) => this.#wait(key, terms, owner, timeout, signal),
      together: (body) => this.together(body),
      giveBack: (key, owner) => this.#unanswered.add(key, owner, terms.ttl),
    };
    return new StoreRound(context, this.#owner());
  }

  together<T>(body: () => T): T {
    return this.#together.run(body);
  }

  get closed(): boolean {
    return this.isClosed;
  }

  granted(hold: Hold, waited: number): Hold {
    this.add(hold, waited);
    if (hold.terms.background) this.#background!.add(hold);
    return hold;
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
    if (this.#asking.lateFailure !== undefined) throw this.#asking.lateFailure as Error;
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

  #wait(
    key: string,
    terms: LeaseTerms,
    owner: string,
    timeout: number,
    signal: AbortSignal | undefined,
  ): Promise<Lease> {
    const wait = { key, timeout, signal, waits: this.waits };
    return this.waits.start(new PollingAcquisition(wait, this.#queues, this.#attempts(key, terms, owner)));
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
    throw leaseTimeout([key], 0, failure);
  }

  /** The attempts of one acquisition, all by one owner. */
  #attempts(key: string, terms: LeaseTerms, owner: string): Attempts {
    const asked = {
      attempt: (asker: Asker) => this.#operations.inOrder([key], () => this.#attempt(key, terms, asker)),
      giveBack: () => this.#unanswered.add(key, owner, terms.ttl),
    };
    return new Attempts(asked, owner);
  }

  #owner(): string {
    return this.holder ?? `${this.name}:${this.#owners++}`;
  }

  async #attempt(key: string, terms: LeaseTerms, asker: Asker): Promise<Lease | undefined> {
    const shared = this.shared(key);
    if (shared) return createLease(shared);
    // The manager may have been closed while this waited for an earlier operation.
    if (this.isClosed) throw managerClosed();
    if (this.rests(key) > 0) return undefined;
    return this.#asks([key], terms, () => this.#asking.forOne(key, terms, asker));
  }

  async #attemptAll(
    keys: readonly string[],
    terms: LeaseTerms,
    owner: string,
    unsure: Set<string>,
    taken: Map<string, Lease>,
  ): Promise<string | undefined> {
    if (this.isClosed) throw managerClosed();
    for (const key of keys) {
      const shared = this.shared(key);
      if (shared) taken.set(key, createLease(shared));
    }
    const others = keys.filter((key) => !taken.has(key));
    const resting = others.find((key) => this.rests(key) > 0);
    if (others.length === 0 || resting !== undefined) return resting;
    return this.#asks(others, terms, () => this.#asking.forAll(others, terms, owner, unsure, taken));
  }

  /** Asks the store for keys: at once, unless renewal in another thread must be prepared or ended first. */
  #asks<R>(keys: readonly string[], terms: LeaseTerms, ask: () => Promise<R>): Promise<R> {
    const waits = terms.background || keys.some((key) => this.latest(key)?.delegated === true);
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

  /** An acquisition of this manager waits for one of them, and goes first. */
  #awaited(keys: readonly string[]): string | undefined {
    return keys.find((key) => this.#queues.isAwaited(key) && this.shared(key) === undefined);
  }
}

function failBackground(keys: readonly string[], error: unknown): never {
  throw storeFailure('renew in the background', keys, error);
}
