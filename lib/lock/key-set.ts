import { outOfRange } from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import { MAX_STRIPES } from '../engine/contract/layout.js';
import { isRememberable, type KeyIndex } from './stripe-index.js';
import { higher, lower, ordered } from './stripe-order.js';

/** Errors name the place of a key in a list that is longer. */
const SHORT_LIST = 24;
/** How many sets are remembered, of few keys and of many. Powers of two. */
const SMALL_SETS = 256;
const LARGE_SETS = 8;
/** A set has few keys up to the first; up to the second it is remembered. Sets with longer strings are not, so that all
 * sets together stay below a megabyte. */
const FEW_KEYS = 16;
const MANY_KEYS = 128;
/** With this many more misses than hits, remembering sets does not pay. No more hits than that are counted in advance. */
const MISSES = 512;
/** Then this many sets are neither looked for nor remembered. */
const BYPASSING = 65_536;

/** Most keys of one acquisition: as many as a lock can have stripes. More would block the thread for seconds. */
export const MAX_KEYS = MAX_STRIPES;
const NONE: readonly LockKey[] = [];

/** The keys of one acquisition, and their stripes. Immutable. */
export class KeySet<K extends LockKey = LockKey> {
  /** What {@link isPair} looks at. */
  readonly low = -1;
  /** The number of stripes. */
  readonly count: number;
  /** The keys that were passed, duplicates included. */
  readonly keys: readonly K[];
  /** Ascending, no duplicates. */
  readonly stripes: readonly number[];

  constructor(keys: readonly K[], stripes: readonly number[]) {
    this.count = stripes.length;
    this.keys = keys;
    this.stripes = stripes;
  }
}

/**
 * Two keys in a set that is not remembered. Most such sets are acquired and released without anybody reading the keys, so
 * there are lists only if somebody does. Immutable.
 */
export class KeyPair<K extends LockKey = LockKey> {
  readonly low: number;
  /** The number of stripes. A field, as some read it where no function may be called (T1). */
  readonly count: number;
  /** The same as {@link low} if both keys have one stripe. */
  readonly high: number;
  readonly #first: K;
  readonly #second: K;

  constructor(first: K, second: K, low: number, high: number) {
    this.low = low;
    this.count = low === high ? 1 : 2;
    this.high = high;
    this.#first = first;
    this.#second = second;
  }

  /** See {@link KeySet}. */
  get keys(): readonly K[] {
    return [this.#first, this.#second];
  }

  /** See {@link KeySet}. */
  get stripes(): readonly number[] {
    return this.count === 1 ? [this.low] : [this.low, this.high];
  }
}

/** The keys of an acquisition of several. */
export type Keys<K extends LockKey = LockKey> = KeySet<K> | KeyPair<K>;

/** Reads a field that is at the same place in both, which costs less than `instanceof`. */
export function isPair(keys: Keys): keys is KeyPair {
  return keys.low >= 0;
}

/**
 * Makes key sets for one thread and one lock. Many programs ask for the same keys together again and again. Comparing
 * eight keys with the last ones takes a fraction of the time needed to find, sort and store their stripes. So this class
 * remembers some sets, by the stripe of the first key.
 *
 * Other programs rarely ask for the same keys together: transfers between any two accounts. Then looking for a set and
 * remembering it is a waste. So if most sets are new, the next ones bypass the memory.
 */
export class KeySets {
  readonly #index: KeyIndex;
  /** Allocated with the first set: they would be half of the objects of an idle lock. */
  #small: (KeySet | undefined)[] | undefined;
  #large: (KeySet | undefined)[] | undefined;
  /** The set that was asked for last. Undefined while sets bypass the memory. */
  #last: KeySet | undefined = undefined;
  /** Hits less misses, but for the last set. */
  #balance = 0;
  /** How many sets still bypass the memory. */
  #bypassing = 0;
  /** Whether any set was remembered since {@link forget}. */
  #remembers = false;

  constructor(index: KeyIndex) {
    this.#index = index;
  }

  /**
   * Throws for a value that cannot be a key, and for too many keys. It reads each key once, and compares, hashes and
   * remembers what it has read: a list may have getters, or be a Proxy, and return something else the next time.
   */
  setOf<K extends LockKey>(keys: readonly K[]): Keys<K> {
    const count = keys.length;
    const last = this.#last;
    if (last !== undefined && last.keys.length === count) {
      const { keys: known } = last;
      let key: unknown;
      let same = 0;
      while (same < known.length && (key = keys[same]) === known[same]) same++;
      return same === known.length ? (last as KeySet<K>) : this.#lookUp(keys, count, known, same, key);
    }
    return this.#first(keys, count);
  }

  /** Forgets all sets: their keys may have other stripes from now on. */
  forget(): void {
    if (!this.#remembers) return;
    this.#remembers = false;
    this.#last = undefined;
    this.#small = undefined;
    this.#large = undefined;
  }

  /** A separate function, so that V8 inlines {@link setOf}. */
  #first<K extends LockKey>(keys: readonly K[], count: number): Keys<K> {
    if (this.#bypassing > 0 && count === 2) return this.#pair(keys);
    checkCount(count);
    if (count === 0) return new KeySet<K>([], []);
    if (this.#bypassing === 0) return this.#lookUp(keys, count, NONE, 0, keys[0]);
    this.#bypassing--;
    return this.#make(keys, count, NONE, 0, keys[0]);
  }

  /** The usual number of keys, in a set that bypasses the memory. */
  #pair<K extends LockKey>(keys: readonly K[]): KeyPair<K> {
    this.#bypassing--;
    const index = this.#index;
    const first = keys[0] as K;
    const second = keys[1] as K;
    const a = index.stripeOf(first, 'keys[]');
    const b = index.stripeOf(second, 'keys[]');
    return new KeyPair(first, second, lower(a, b), higher(a, b));
  }

  /** The first `read` keys are those of `known`, and `key` is the next. */
  #lookUp<K extends LockKey>(
    keys: readonly K[],
    count: number,
    known: readonly LockKey[],
    read: number,
    key: unknown,
  ): KeySet<K> {
    if (count > MANY_KEYS) return this.#make(keys, count, known, read, key);
    const first = this.#index.stripeOf(read === 0 ? key : known[0], 'keys[]');
    const sets =
      count > FEW_KEYS ? (this.#large ??= emptySets(LARGE_SETS)) : (this.#small ??= emptySets(SMALL_SETS));
    const at = (first + count) & (sets.length - 1);
    const remembered = sets[at];
    if (remembered?.keys.length === count && startsWith(remembered.keys, known, read, key)) {
      const { keys: same } = remembered;
      for (let i = read + 1; i < count; i++) {
        const next = keys[i];
        if (next !== same[i]) return this.#remember(this.#make(keys, count, same, i, next), sets, at);
      }
      if (this.#balance < MISSES) this.#balance++;
      this.#last = remembered;
      return remembered as KeySet<K>;
    }
    return this.#remember(this.#make(keys, count, known, read, key), sets, at);
  }

  #remember<K extends LockKey>(set: KeySet<K>, sets: (KeySet | undefined)[], at: number): KeySet<K> {
    if (!set.keys.every(isRememberable)) return set;
    this.#remembers = true;
    sets[at] = set;
    this.#last = set;
    if (--this.#balance <= -MISSES) {
      this.#balance = 0;
      this.#bypassing = BYPASSING;
      this.#last = undefined;
    }
    return set;
  }

  /** Reads the rest. */
  #make<K extends LockKey>(
    list: readonly K[],
    count: number,
    known: readonly LockKey[],
    read: number,
    key: unknown,
  ): KeySet<K> {
    const index = this.#index;
    const keys = new Array<K>(count);
    const stripes = new Array<number>(count);
    for (let i = 0; i < count; i++) {
      const next: unknown = i < read ? known[i] : i === read ? key : list[i];
      // Throws at once for a value that is not a key, not after reading all of them.
      stripes[i] = index.stripeOf(next, count > SHORT_LIST ? `keys[${i}]` : 'keys[]');
      keys[i] = next as K;
    }
    return new KeySet(keys, ordered(stripes));
  }
}

function emptySets(count: number): (KeySet | undefined)[] {
  return new Array<undefined>(count).fill(undefined);
}

/** Checks that the length is a count: a Proxy may return anything. */
function checkCount(count: number): void {
  if (Number.isInteger(count) && count >= 0 && count <= MAX_KEYS) return;
  throw outOfRange('keys.length', `an integer from 0 to ${MAX_KEYS}`, count);
}

/** Whether a list begins with the first `count` keys of `known`, followed by `key`. */
function startsWith(
  list: readonly LockKey[],
  known: readonly LockKey[],
  count: number,
  key: unknown,
): boolean {
  for (let i = 0; i < count; i++) {
    if (list[i] !== known[i]) return false;
  }
  return list[count] === key;
}
