import { threadId } from 'node:worker_threads';
import { leaseChannels } from '../../common/diagnostics.js';
import type { LockError } from '../../common/errors.js';
import { storeFailure } from '../contract/errors.js';
import type { InfoLeaseStore } from '../contract/lease-store.js';
import type { Hold } from '../hold/hold.js';
import type { Grants } from './grants.js';

/**
 * The pending operations of a store: releases, and attempts that are counted with them. With stable owners the
 * operations on one key are sent one after the other. Otherwise a store could execute a later one first.
 */
export class StoreOperations {
  readonly #grants: Grants;
  /** Where renewals and releases go. */
  readonly #store: Pick<InfoLeaseStore, 'renew' | 'release'>;
  /** With stable owners, the last operation on each key, settled without a result. */
  readonly #last = new Map<string, Promise<void>>();
  /** Operations that the store has not answered. */
  #underWay = 0;
  /** Called when none are left. */
  #answered: (() => void) | undefined;

  constructor(grants: Grants) {
    this.#grants = grants;
    this.#store = grants.store;
  }

  /**
   * Runs it, if owners are stable, after earlier operations on the keys have ended. An operation on several keys comes
   * after the earlier ones on each of them, and before all later ones.
   */
  inOrder<T>(keys: readonly string[], operation: () => Promise<T>): Promise<T> {
    if (!this.#grants.stableOwners) return operation();
    const before = keys.map((key) => this.#last.get(key)).filter((last) => last !== undefined);
    const result = before.length === 0 ? operation() : Promise.all(before).then(operation);
    const settled: Promise<void> = result
      .then(
        () => undefined,
        () => undefined,
      )
      .then(() => {
        for (const key of keys) if (this.#last.get(key) === settled) this.#last.delete(key);
      });
    for (const key of keys) this.#last.set(key, settled);
    return result;
  }

  /** Counts it as pending until it settles. */
  async count<T>(operation: () => Promise<T>): Promise<T> {
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

  /** Resolves when nothing is pending. */
  async settled(): Promise<void> {
    while (this.#underWay > 0) await new Promise<void>((resolve) => (this.#answered = resolve));
  }

  /** Frees what was held. True if this freed it. Rejects with a LeaseStoreError, or the store's permanent error. */
  free(hold: Hold): Promise<boolean> {
    const { key } = hold;
    if (this.#grants.stableOwners) return this.inOrder([key], () => this.#freeLatest(hold));
    if (!hold.delegated) return this.release(key, hold.owner, hold);
    const detached = hold.renewals.detach();
    // Nobody else will ever hold it under this name, so a renewal that another thread has sent may come later. But it must
    // not extend a lease that is only shortened.
    if (this.#grants.minHoldLeftOf(hold) === 0) return this.release(key, hold.owner, hold);
    return this.count(() => detached.then(() => this.release(key, hold.owner, hold)));
  }

  /** Frees what an attempt may have been granted, unless the same owner holds the key through another attempt. */
  freeUnheld(key: string, owner: string): Promise<boolean> {
    return this.inOrder([key], async () => {
      return this.#grants.latest(key) === undefined && (await this.release(key, owner));
    });
  }

  /** `hold`: what was held; undefined for a grant whose answer was lost or came late. */
  release(key: string, owner: string, hold?: Hold): Promise<boolean> {
    return this.count(async () => {
      try {
        const left = hold === undefined ? 0 : this.#grants.minHoldLeftOf(hold);
        if (left === 0) return await this.#store.release(key, owner);
        this.#grants.keepTaken(key, left);
        return await this.#store.renew(key, owner, left);
      } catch (error) {
        const failure = storeFailure('release', key, error);
        if (hold === undefined) announceFailure('release', key, owner, failure);
        else hold.announceFailure('release', failure);
        throw failure;
      }
    });
  }

  /** Frees nothing that was granted to the same owner after the hold. */
  async #freeLatest(hold: Hold): Promise<boolean> {
    // A renewal that another thread has sent must not reach the store after the owner's next acquisition.
    if (hold.delegated) await hold.renewals.detach();
    const latest = this.#grants.latest(hold.key);
    if (latest !== undefined && latest !== hold) return false;
    const freed = await this.release(hold.key, hold.owner, hold);
    this.#grants.forget(hold);
    return freed;
  }
}

/** Publishes to `stripelock:lease:failed`, about a key that nobody holds here. */
export function announceFailure(
  operation: 'acquire' | 'release',
  key: string,
  owner: string,
  error: LockError,
): void {
  if (!leaseChannels.failed.hasSubscribers) return;
  const nothing = { token: undefined, remaining: undefined };
  leaseChannels.failed.publish({ key, operation, error, holder: owner, threadId, ...nothing });
}
