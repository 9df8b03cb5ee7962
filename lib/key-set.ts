import type { StripeIndex } from './stripe-index.js';
import type { LockKey } from './types.js';

/** Up to this many stripes, inserting in place is quicker than a call to sort. */
const INSERTION_SORT_LIMIT = 24;
/** Sets remembered; a power of two. */
const REMEMBERED_SETS = 64;
/** Sets of more keys, and of longer strings, are not remembered, so that what is stays below half a megabyte. */
const REMEMBERED_KEYS = 16;
const REMEMBERED_LENGTH = 256;

/** The keys of one acquisition, and where they lead. Not changed once it is made. */
export class KeySet<K extends LockKey = LockKey> {
  /** As they were passed, duplicates included. */
  readonly keys: readonly K[];
  /** Ascending, no duplicates. */
  readonly stripes: readonly number[];

  constructor(keys: readonly K[], stripes: readonly number[]) {
    this.keys = keys;
    this.stripes = stripes;
  }
}

/**
 * Makes key sets for one thread and one lock. Programs ask for the same keys together again and again, and comparing
 * eight keys with those of last time takes a fraction of finding, sorting and storing their stripes; so the last set
 * is remembered for each of some values of the first key's stripe.
 */
export class KeySets {
  readonly #index: StripeIndex;
  readonly #remembered: (KeySet | undefined)[] = new Array<undefined>(REMEMBERED_SETS).fill(undefined);
  /** The one asked for last. */
  #last: KeySet | undefined = undefined;

  constructor(index: StripeIndex) {
    this.#index = index;
  }

  /** Throws for what cannot be a key. */
  setOf<K extends LockKey>(keys: readonly K[]): KeySet<K> {
    const last = this.#last;
    if (last !== undefined && sameKeys(last.keys, keys)) return last as KeySet<K>;
    if (keys.length === 0 || keys.length > REMEMBERED_KEYS) return this.#make(keys);
    const first = this.#index.stripeOf(keys[0], 'keys[]');
    const at = (first + keys.length) & (REMEMBERED_SETS - 1);
    const remembered = this.#remembered[at];
    if (remembered !== undefined && sameKeys(remembered.keys, keys)) {
      this.#last = remembered;
      return remembered as KeySet<K>;
    }
    const set = this.#make(keys);
    if (set.keys.every(isRememberable)) this.#last = this.#remembered[at] = set;
    return set;
  }

  #make<K extends LockKey>(list: readonly K[]): KeySet<K> {
    const keys = list.slice();
    const index = this.#index;
    const stripes: number[] = [];
    if (keys.length > INSERTION_SORT_LIMIT) {
      const sorted = Int32Array.from(keys, (key, i) => index.stripeOf(key, `keys[${i}]`)).sort();
      for (let i = 0; i < sorted.length; i++) {
        if (i === 0 || sorted[i] !== sorted[i - 1]) stripes.push(sorted[i]!);
      }
    } else {
      for (let i = 0; i < keys.length; i++) insert(stripes, index.stripeOf(keys[i], 'keys[]'));
    }
    return new KeySet(keys, stripes);
  }
}

/** Into an ascending list, unless it is there. */
function insert(stripes: number[], stripe: number): void {
  let at = stripes.length;
  while (at > 0 && stripes[at - 1]! > stripe) at--;
  if (at > 0 && stripes[at - 1] === stripe) return;
  stripes.push(stripe);
  for (let i = stripes.length - 1; i > at; i--) stripes[i] = stripes[i - 1]!;
  stripes[at] = stripe;
}

function sameKeys(a: readonly LockKey[], b: readonly LockKey[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) return false;
  }
  return true;
}

/** Bytes are not: what they are can change. */
function isRememberable(key: LockKey): boolean {
  return typeof key === 'number' || (typeof key === 'string' && key.length <= REMEMBERED_LENGTH);
}
