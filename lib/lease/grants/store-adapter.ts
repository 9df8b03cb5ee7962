import { isPermanent } from '../contract/errors.js';
import type { FencingToken, InfoLeaseStore, LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms } from '../contract/options.js';
import { canDoTogether } from '../contract/several-keys.js';
import { Batches, extra } from '../hold/batches.js';
import type { Asker } from './acquisition.js';
import { handOn } from './waiting-lines.js';

/**
 * Any store, as if it could take several keys at once. A store that cannot is asked for one key after the other, and what it
 * granted is rolled back when a later key is refused. An attempt first sends the renewals and releases that were asked for.
 */
export class StoreAdapter {
  readonly #store: InfoLeaseStore;
  /** Its renewals and releases. */
  readonly batches: Batches;

  constructor(store: LeaseStore) {
    this.#store = store;
    this.batches = new Batches(store, (key) => handOn(store, key));
  }

  /**
   * All or none: the tokens, or the place of the first key that another owner has. Notes in the asker what it may have
   * been granted without an answer, and that a rollback has failed. `granted`: called for each key that is granted before
   * the next one is asked for.
   */
  async tryAcquireAll(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly FencingToken[] | number> {
    const store = this.#store;
    this.batches.flush();
    if (keys.length === 1) {
      const token = await this.#tryOne(keys[0]!, asker, terms);
      return token === undefined ? 0 : [token];
    }
    if (!canDoTogether(store, keys)) return this.#tryOneByOne(keys, asker, terms, granted);
    const { ttl, info } = terms;
    return noting(asker, keys, () => store.tryAcquireAll(keys, asker.owner, ttl, ...extra(info)));
  }

  #tryOne(key: string, asker: Asker, { ttl, info }: LeaseTerms): Promise<FencingToken | undefined> {
    return noting(asker, [key], () => this.#store.tryAcquire(key, asker.owner, ttl, ...extra(info)));
  }

  async #tryOneByOne(
    keys: readonly string[],
    asker: Asker,
    terms: LeaseTerms,
    granted: (key: string) => void,
  ): Promise<readonly FencingToken[] | number> {
    const tokens: FencingToken[] = [];
    try {
      for (const key of keys) {
        const token = await this.#tryOne(key, asker, terms);
        if (token === undefined) return tokens.length;
        tokens.push(token);
        granted(key);
      }
      return tokens;
    } finally {
      if (tokens.length < keys.length) await this.#rollBack(keys, tokens, asker);
    }
  }

  /** Frees as many of the keys as there are tokens, in reverse. Never rejects. */
  async #rollBack(keys: readonly string[], tokens: readonly FencingToken[], asker: Asker): Promise<void> {
    const granted = tokens.map((token, i) => ({ key: keys[i]!, token })).reverse();
    const results = await Promise.allSettled(
      granted.map(({ key, token }) => this.batches.release(key, asker.owner, token)),
    );
    results.forEach(({ status }, i) => {
      if (status === 'rejected') leftOver(asker, granted[i]!.key);
    });
  }
}

/** The keys may be held although their release failed, and that release may still be executed. */
function leftOver(asker: Asker, key: string): void {
  (asker.unsure ??= new Set()).add(key);
  asker.isSpent = true;
}

/**
 * The answer. The keys may have been granted although it was lost; but a store that refuses for good has granted nothing.
 */
async function noting<T>(asker: Asker, keys: readonly string[], ask: () => Promise<T>): Promise<T> {
  try {
    const answer = await ask();
    for (const key of keys) asker.unsure?.delete(key);
    return answer;
  } catch (error) {
    if (!isPermanent(error)) for (const key of keys) (asker.unsure ??= new Set()).add(key);
    throw error;
  }
}
