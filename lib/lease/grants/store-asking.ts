import { performance } from '../../common/host.js';
import { LockError } from '../../common/errors.js';
import { LeaseStoreError, managerClosed, storeFailure } from '../contract/errors.js';
import { grantInTime } from '../contract/late-grant.js';
import type { FencingToken, InfoLeaseStore, LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms } from '../contract/options.js';
import { canDoTogether } from '../contract/several-keys.js';
import { Hold, type HoldContext } from '../hold/hold.js';
import { createLease, type Lease } from '../hold/lease.js';
import type { Asker } from '../wait/attempts.js';
import { announceFailure, type StoreOperations } from './store-operations.js';

/** What asking needs of the manager's grants. */
export interface AskContext extends HoldContext {
  readonly closed: boolean;
  /** Records a hold that was granted. */
  granted(hold: Hold, waited: number): Hold;
}

/** What the store answers: tokens, or the place of a key that another owner has. */
type Answer = readonly FencingToken[] | number;

interface Request<A, R> {
  send(): Promise<A>;
  read(answer: A): Answer;
  /** Called with whether a grant may have been lost with its answer. */
  note(unsure: boolean): void;
  /** The leases, or the key that another owner has. */
  result(leases: readonly Lease[] | string): R;
}

/** Requests for grants of a store, and what comes of their answers. */
export class StoreAsking {
  /** The first failure to give back a grant that came after the manager was closed. */
  lateFailure: unknown;
  /** If it keeps no infos, it ignores them. */
  readonly #store: InfoLeaseStore;
  readonly #operations: StoreOperations;
  readonly #context: AskContext;

  constructor(store: LeaseStore, operations: StoreOperations, context: AskContext) {
    this.#store = store;
    this.#operations = operations;
    this.#context = context;
  }

  /** Undefined if another owner has the key. Rejects with a LeaseStoreError. */
  forOne(key: string, terms: LeaseTerms, asker: Asker): Promise<Lease | undefined> {
    const { owner } = asker;
    return this.#ask([key], terms, owner, {
      send: () => this.#store.tryAcquire(key, owner, terms.ttl, ...infoOf(terms)),
      read: (token) => (token === undefined ? 0 : [token]),
      note: (unsure) => (asker.unsure = unsure),
      result: (leases) => (typeof leases === 'string' ? undefined : leases[0]),
    });
  }

  /**
   * All in one step, if the store can, else one after the other, until one is refused. See `RoundContext.attemptAll`,
   * which this does for keys that no other lease of the manager shares.
   */
  async forAll(
    keys: readonly string[],
    terms: LeaseTerms,
    owner: string,
    unsure: Set<string>,
    taken: Map<string, Lease>,
  ): Promise<string | undefined> {
    const store = this.#store;
    if (canDoTogether(store, keys)) {
      return this.#ask(keys, terms, owner, {
        send: () => store.tryAcquireAll(keys, owner, terms.ttl, ...infoOf(terms)),
        read: (answer) => answer,
        note: (isUnsure) => {
          for (const key of keys) note(unsure, key, isUnsure);
        },
        result: (leases) => {
          if (typeof leases === 'string') return leases;
          for (const lease of leases) taken.set(lease.key, lease);
          return undefined;
        },
      });
    }
    for (const key of keys) {
      const asker = { owner, unsure: false };
      try {
        const lease = await this.forOne(key, terms, asker);
        if (lease === undefined) return key;
        taken.set(key, lease);
      } finally {
        note(unsure, key, asker.unsure);
      }
    }
    return undefined;
  }

  async #ask<A, R>(
    keys: readonly string[],
    terms: LeaseTerms,
    owner: string,
    request: Request<A, R>,
  ): Promise<R> {
    const context = this.#context;
    const { ttl } = terms;
    const started = performance.now();
    const at = context.schedule.now();
    let answer: Answer;
    try {
      answer = request.read(await request.send());
    } catch (error) {
      // With any other LockError the store was not asked.
      request.note(!(error instanceof LockError) || error instanceof LeaseStoreError);
      const failure = storeFailure('acquire', keys, error);
      for (const key of keys) announceFailure('acquire', key, owner, failure);
      throw failure;
    }
    request.note(false);
    if (typeof answer === 'number') {
      if (context.closed) throw managerClosed();
      return request.result(keyAt(keys, answer));
    }
    checkTokens(keys, answer);
    // Once the manager is closed, no grant is in time.
    const now = context.closed ? Infinity : context.schedule.now();
    const giveBack = (): Promise<unknown> => this.#giveBack(keys, owner);
    const granted = grantInTime(answer, { store: 'the lease store', at, ttl }, now, giveBack);
    if (granted instanceof Promise) {
      return granted.catch((error: unknown) => {
        throw context.closed ? managerClosed() : error;
      });
    }
    const waited = performance.now() - started;
    const holds = keys.map((key, i) => new Hold(context, key, owner, granted[i]!, 0, terms, at));
    return request.result(holds.map((hold) => createLease(context.granted(hold, waited))));
  }

  async #giveBack(keys: readonly string[], owner: string): Promise<void> {
    const releases = this.#context.together(() =>
      [...keys].reverse().map((key) => this.#operations.release(key, owner)),
    );
    for (const result of await Promise.allSettled(releases)) {
      if (result.status === 'rejected' && this.#context.closed) this.lateFailure ??= result.reason;
    }
  }
}

/** Only if there is one: most stores expect none. */
function infoOf({ info }: LeaseTerms): [info?: string] {
  return info === undefined ? [] : [info];
}

function note(unsure: Set<string>, key: string, isUnsure: boolean): void {
  if (isUnsure) unsure.add(key);
  else unsure.delete(key);
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
