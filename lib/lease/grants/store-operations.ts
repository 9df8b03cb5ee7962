import { threadId } from 'node:worker_threads';
import { leaseChannels } from '../../common/diagnostics.js';
import type { LockError } from '../../common/errors.js';
import { storeFailure } from '../contract/errors.js';
import type { LeaseStore } from '../contract/lease-store.js';
import type { Hold } from '../hold/hold.js';
import { handOn } from '../wait/hand-on.js';
import { OrderedOperations } from './ordered.js';

/** What releases need of the manager's grants. */
export interface HeldLeases {
  readonly store: LeaseStore;
  /** Where releases go: the store, or what collects them for it. */
  readonly releases: Pick<LeaseStore, 'renew' | 'release'>;
  readonly stableOwners: boolean;
  /** With stable owners: the last hold of the key, until it is lost or freed. */
  latest(key: string): Hold | undefined;
  forget(hold: Hold): void;
  /** Milliseconds for which the key must stay taken after its release; 0 for none. */
  restOf(hold: Hold): number;
  /** The key stays taken for so long. */
  letRest(key: string, milliseconds: number): void;
}

/**
 * The pending operations of a store: releases, and attempts that are counted with them. With stable owners the
 * operations on one key are sent one after the other.
 */
export class StoreOperations {
  readonly #held: HeldLeases;
  readonly #ordered = new OrderedOperations();
  /** Operations that the store has not answered. */
  #underWay = 0;
  /** Called when none are left. */
  #answered: (() => void) | undefined;

  constructor(held: HeldLeases) {
    this.#held = held;
  }

  /** Runs it, if owners are stable, after earlier operations on the keys have ended. */
  inOrder<T>(keys: readonly string[], operation: () => Promise<T>): Promise<T> {
    return this.#held.stableOwners ? this.#ordered.run(keys, operation) : operation();
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
    const { stableOwners } = this.#held;
    const { key } = hold;
    if (stableOwners) return this.inOrder([key], () => this.#freeLatest(hold));
    if (!hold.delegated) return this.release(key, hold.owner, hold);
    const detached = hold.renewals.detach();
    // Nobody else will ever hold it under this name, so a renewal that another thread has sent may come later. But it must
    // not extend a lease that is only shortened.
    if (this.#held.restOf(hold) === 0) return this.release(key, hold.owner, hold);
    return this.count(() => detached.then(() => this.release(key, hold.owner, hold)));
  }

  /** Frees what an attempt may have been granted, unless the same owner holds the key through another attempt. */
  freeUnheld(key: string, owner: string): Promise<boolean> {
    return this.inOrder([key], async () => {
      return this.#held.latest(key) === undefined && (await this.release(key, owner));
    });
  }

  /** `hold`: what was held; undefined for a grant whose answer was lost or came late. */
  release(key: string, owner: string, hold?: Hold): Promise<boolean> {
    const { store, releases } = this.#held;
    return this.count(async () => {
      try {
        const rest = hold === undefined ? 0 : this.#held.restOf(hold);
        if (rest > 0) {
          this.#held.letRest(key, rest);
          return await releases.renew(key, owner, rest);
        }
        const freed = await releases.release(key, owner);
        if (freed) handOn(store, key);
        return freed;
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
    const latest = this.#held.latest(hold.key);
    if (latest !== undefined && latest !== hold) return false;
    const freed = await this.release(hold.key, hold.owner, hold);
    this.#held.forget(hold);
    return freed;
  }
}

/** Publishes to `stripelock:lease:failed`, about a key that nobody holds here. */
export function announceFailure(
  operation: 'acquire' | 'release',
  key: string,
  holder: string,
  error: LockError,
): void {
  if (!leaseChannels.failed.hasSubscribers) return;
  const nothing = { token: undefined, remaining: undefined };
  leaseChannels.failed.publish({ key, operation, error, holder, threadId, ...nothing });
}
