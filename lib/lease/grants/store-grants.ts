import { threadId } from 'node:worker_threads';
import { leaseChannels } from '../../common/diagnostics.js';
import { localNow, setClock, timerNow } from '../../common/elapsed.js';
import type { LockError } from '../../common/errors.js';
import { engineClock } from '../../engine/select.js';
import { BackgroundStore } from '../background/renewing-thread.js';
import {
  cannotReopen,
  isPermanent,
  LeaseStoreError,
  managerClosed,
  storeFailure,
} from '../contract/errors.js';
import { sourceOf, type FencingToken, type LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms, ManagerSettings, Wait } from '../contract/options.js';
import { allSlots, fromAny, slotKey } from '../contract/slots.js';
import { Hold } from '../hold/hold.js';
import type { Lease } from '../hold/lease.js';
import { Acquisition, type Answer, type Asker } from './acquisition.js';
import { Grants } from './grants.js';
import { PollingQueues } from './polling-queue.js';
import { leftOver, StoreAdapter } from './store-adapter.js';
import { Unanswered } from './unanswered.js';

/**
 * Grants of a store that must be asked. With stable owners the operations on one key are sent one after the other:
 * otherwise a store could execute a later one first.
 */
export class StoreGrants extends Grants {
  /** A store does not say when a lease ended, only that it is gone. */
  readonly looksBeforeRelease = true;
  readonly tableClock = undefined;
  readonly queues: PollingQueues;
  readonly #adapter: StoreAdapter;
  readonly #unanswered: Unanswered;
  /** Renews leases while the event loop is blocked. Undefined if the store cannot be opened by another thread. */
  readonly #background: BackgroundStore | undefined;
  #owners = 0;
  /** With stable owners, the last operation on each key, settled without a result. */
  readonly #last = new Map<string, Promise<void>>();
  /** Releases, and attempts, that the store has not answered. */
  #underWay = 0;
  /** Called when none are left. */
  #answered: (() => void) | undefined;
  /** The first failure to give back a grant that came after the manager was closed. */
  #lateFailure: unknown;

  constructor(store: LeaseStore, settings: ManagerSettings) {
    const adapter = new StoreAdapter(store);
    super(adapter, settings, localNow);
    const clock = engineClock();
    if (clock) setClock(clock);
    const source = settings.clock === undefined ? sourceOf(store) : undefined;
    this.#background = source && new BackgroundStore(source, settings.backoff);
    this.#adapter = adapter;
    this.#unanswered = new Unanswered((key, owner) => this.#freeUnheld(key, owner), this.backoff);
    this.queues = new PollingQueues(this, store);
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
    return { owner, since, unsure: undefined, isSpent: false, hasGone: false };
  }

  tryAll(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
    _inTurn: boolean,
    slots?: readonly number[],
  ): Promise<Answer> {
    if (terms.limit > 1)
      return this.#trySlots(keys[0]!, asker, terms, slots ?? fromAny(allSlots(terms.limit)));
    return this.#inOrder(keys, () =>
      this.stableOwners ? this.#tryShared(keys, asker, terms) : this.#tryAll(keys, asker, terms),
    );
  }

  async discard(holds: readonly Hold[], asker: Asker, terms: LeaseTerms): Promise<void> {
    const reversed = [...holds].reverse();
    const results = await Promise.allSettled(reversed.map((hold) => hold.discard(asker)));
    results.forEach(({ status }, i) => {
      if (status === 'rejected') leftOver(asker, reversed[i]!.name);
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

  /** Frees what was held. True if this freed it. Rejects with a LeaseStoreError, or the store's permanent error. */
  free(hold: Hold): Promise<boolean> {
    const { name } = hold;
    if (this.stableOwners) return this.#inOrder([name], () => this.#freeLatest(hold));
    if (this.minHoldLeftOf(hold) > 0) {
      // A renewal that is still under way would replace the rest of that time by its own.
      return this.#count(() => hold.renewals.settled().then(() => this.#release(name, hold.owner, hold)));
    }
    // No other grant ever has this owner, so a renewal may reach the store after the release.
    if (hold.delegated) void hold.renewals.detach();
    return this.#release(name, hold.owner, hold);
  }

  /** With stable owners, also in order: a late renewal must not reach the owner's next lease. */
  override renew(hold: Hold, ttl: number, info?: string): Promise<boolean> {
    return this.#inOrder([hold.name], () =>
      hold.ended ? Promise.resolve(false) : super.renew(hold, ttl, info),
    );
  }

  override async close(): Promise<void> {
    await super.close();
    if (this.#lateFailure !== undefined) throw this.#lateFailure as Error;
  }

  /** With stable owners, later operations on the key wait until nothing renews the hold any more. */
  override lost(hold: Hold): void {
    super.lost(hold);
    if (!hold.delegated || !this.stableOwners) return;
    void this.#inOrder([hold.name], () => hold.renewals.detach());
  }

  protected async settled(): Promise<void> {
    while (this.#underWay > 0) await new Promise<void>((resolve) => (this.#answered = resolve));
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

  /** One slot after the other. If the store fails for one, because of a foreign value for instance, another may do. */
  async #trySlots(key: string, asker: Asker, terms: LeaseTerms, slots: readonly number[]): Promise<Answer> {
    let failure: unknown;
    for (const slot of slots) {
      const name = slotKey(key, slot);
      try {
        const answer = await this.#inOrder([name], async () => {
          if (asker.hasGone || this.ownFor(name) > 0) return undefined;
          return this.#tryAll([key], asker, { ...terms, slot });
        });
        if (answer !== undefined && !('retryAfter' in answer)) return answer;
      } catch (error) {
        // After a second failure the store is probably unreachable, and each slot could cost its time limit.
        if (failure !== undefined || isPermanent(error)) throw error;
        failure = error;
      }
    }
    if (failure !== undefined) throw failure as Error;
    return { key, retryAfter: Infinity };
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
      const kept = others.find((key) => this.keptFor(key) > 0);
      const answer: Answer =
        kept === undefined
          ? await this.#tryAll(others, asker, terms)
          : { key: kept, retryAfter: this.keptFor(kept) };
      return 'retryAfter' in answer ? answer : [...joined.splice(0), ...answer];
    } finally {
      if (joined.length > 0) await this.discard(joined, asker, terms);
    }
  }

  /** Asks the store: at once, unless renewal in another thread must be prepared or ended first. */
  #tryAll(keys: readonly string[], asker: Asker, terms: LeaseTerms): Promise<Answer> {
    // The manager may have been closed while this waited for an earlier operation.
    if (this.isClosed) return Promise.reject(managerClosed());
    const names = keys.map((key) => slotKey(key, terms.slot));
    const waits = terms.background || names.some((name) => this.latest(name)?.delegated === true);
    const ask = (): Promise<Answer> => this.#ask(keys, names, asker, terms);
    return this.#count(waits ? () => this.#prepare(names, terms).then(ask) : ask);
  }

  async #prepare(names: readonly string[], { background }: LeaseTerms): Promise<void> {
    if (background) await this.#background!.ready().catch((error: unknown) => failBackground(names, error));
    for (const name of names) {
      // The store will not be able to distinguish the new lease from this one.
      const latest = this.latest(name);
      if (latest?.delegated === true) await latest.renewals.takeOver();
    }
  }

  /** `names`: of the keys in the store. */
  async #ask(
    keys: readonly string[],
    names: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
  ): Promise<Answer> {
    const owner = asker.owner!;
    const { ttl } = terms;
    const started = timerNow();
    const at = this.schedule.now();
    let answer: readonly FencingToken[] | number;
    const undos = this.stableOwners ? names.map((name) => this.#mayReplace(name, at + ttl)) : [];
    try {
      answer = await this.#adapter.tryAcquireAll(names, asker, terms, (name) => this.replaced(name));
    } catch (error) {
      undos.forEach((undo, i) => {
        const hold = this.latest(names[i]!);
        if (isPermanent(error) || asker.unsure?.has(names[i]!) !== true) undo();
        else if (hold !== undefined) hold.mayBeReplaced = true;
      });
      const failure = storeFailure('acquire', keys, error);
      for (const key of keys) announceUnheldFailure('acquire', key, owner, failure);
      throw failure;
    }
    if (typeof answer === 'number') {
      for (const undo of undos) undo();
      if (this.isClosed) throw managerClosed();
      return { key: keyAt(keys, answer), retryAfter: Infinity };
    }
    checkTokens(keys, answer);
    // The time of a lease counts from before the request was sent.
    if (this.isClosed || this.schedule.now() - at >= ttl) {
      await this.#giveBackLate(names, owner, answer);
      if (this.isClosed) throw managerClosed();
      throw new LeaseStoreError(
        `the lease store granted a lease of ${ttl} ms when that time was already over; the grant was given back`,
      );
    }
    const tokens = answer;
    const waited = timerNow() - started;
    const holds = keys.map((key, i) => new Hold(this, key, owner, tokens[i]!, 0, terms, at));
    for (const hold of holds) {
      this.add(hold, waited);
      if (terms.background) this.#background!.add(hold);
      hold.join(asker);
    }
    return holds;
  }

  /**
   * Its owner asks for the key again. A grant replaces the last hold, perhaps without an answer, and lasts until `until`.
   * Returns a function to call if nothing was granted.
   */
  #mayReplace(name: string, until: number): () => void {
    const hold = this.latest(name);
    if (hold === undefined || hold.ended || hold.expiresAt <= until) return () => undefined;
    const { expiresAt, deadline } = hold;
    const look = Math.min(deadline, until);
    hold.expiresAt = until;
    this.schedule.set(hold, look);
    return () => {
      if (hold.ended || hold.expiresAt !== until) return;
      hold.expiresAt = expiresAt;
      if (hold.deadline === look) this.schedule.set(hold, deadline);
    };
  }

  /**
   * Runs it, if owners are stable, after earlier operations on the keys have ended. An operation on several keys comes
   * after the earlier ones on each of them, and before all later ones.
   */
  #inOrder<T>(keys: readonly string[], operation: () => Promise<T>): Promise<T> {
    if (!this.stableOwners) return operation();
    const before = keys.map((key) => this.#last.get(key)).filter((last) => last !== undefined);
    const result = before.length === 0 ? operation() : Promise.all(before).then(operation);
    const settled: Promise<void> = Promise.allSettled([result]).then(() => {
      for (const key of keys) if (this.#last.get(key) === settled) this.#last.delete(key);
    });
    for (const key of keys) this.#last.set(key, settled);
    return result;
  }

  /** Counts it as pending until it settles. */
  async #count<T>(operation: () => Promise<T>): Promise<T> {
    this.#underWay++;
    try {
      return await operation();
    } finally {
      if (--this.#underWay === 0) {
        this.#answered?.();
        this.#answered = undefined;
      }
    }
  }

  /** Frees what an attempt may have been granted, unless the same owner holds the key through another attempt. */
  #freeUnheld(key: string, owner: string): Promise<boolean> {
    return this.#inOrder([key], async () => {
      return this.latest(key) === undefined && (await this.#release(key, owner));
    });
  }

  /** Frees nothing that was granted to the same owner after the hold. */
  async #freeLatest(hold: Hold): Promise<boolean> {
    // A renewal that another thread has sent must not reach the store after the owner's next acquisition.
    if (hold.delegated) await hold.renewals.detach();
    const latest = this.latest(hold.name);
    if (latest !== undefined && latest !== hold) return false;
    const freed = await this.#release(hold.name, hold.owner, hold);
    this.forget(hold);
    return freed;
  }

  /**
   * `hold`: what was held; undefined for a grant that came late, with its token, or whose answer was lost, without. Without a
   * token, the grant that the store has for the owner ends.
   */
  #release(key: string, owner: string, hold?: Hold, granted?: FencingToken): Promise<boolean> {
    return this.#count(async () => {
      try {
        const left = hold === undefined ? 0 : this.minHoldLeftOf(hold);
        const token = hold === undefined ? granted : hold.mayBeReplaced ? undefined : hold.token;
        if (left === 0) return await this.#adapter.release(key, owner, token);
        this.keepTaken(key, left);
        return await this.#adapter.keep(key, owner, left, token);
      } catch (error) {
        const failure = storeFailure('release', key, error);
        if (hold === undefined) announceUnheldFailure('release', key, owner, failure);
        else hold.announceFailure('release', failure);
        throw failure;
      }
    });
  }

  async #giveBackLate(
    names: readonly string[],
    owner: string,
    tokens: readonly FencingToken[],
  ): Promise<void> {
    const granted = names.map((name, i) => ({ name, token: tokens[i] })).reverse();
    const releases = granted.map(({ name, token }) => this.#release(name, owner, undefined, token));
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

/** Publishes to `stripelock:lease:failed`, about a key that nobody holds here. */
function announceUnheldFailure(
  operation: 'acquire' | 'release',
  key: string,
  owner: string,
  error: LockError,
): void {
  if (!leaseChannels.failed.hasSubscribers) return;
  const nothing = { token: undefined, remaining: undefined };
  leaseChannels.failed.publish({ key, operation, error, holder: owner, threadId, ...nothing });
}
