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
const MAX_KEYS = MAX_STRIPES;

/** The keys of an acquisition of several, and their stripes. Immutable. */
export interface KeySet<K extends LockKey = LockKey> {
  /** Ascending, no duplicates. A field, as it is read where no function may be called (T1). */
  readonly stripes: readonly number[];
  /** The keys that were passed, duplicates included. */
  readonly keys: readonly K[];
}

/** A set that may be asked for again. */
interface RememberedSet<K extends LockKey = LockKey> extends KeySet<K> {
  /** The index's count when the first stripe was looked up. With another one, the keys may have other stripes. */
  readonly unpins: number;
}

/**
 * Two keys in a set that is not remembered. Most such sets are acquired and released without anybody reading the keys, so
 * there is a list only if somebody does.
 */
class KeyPair<K extends LockKey> implements KeySet<K> {
  readonly stripes: readonly number[];
  readonly #first: K;
  readonly #second: K;

  constructor(stripes: readonly number[], first: K, second: K) {
    this.stripes = stripes;
    this.#first = first;
    this.#second = second;
  }

  get keys(): readonly K[] {
    return [this.#first, this.#second];
  }
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
  #small: (RememberedSet | undefined)[] | undefined;
  #large: (RememberedSet | undefined)[] | undefined;
  /** The set that was asked for last. Undefined while sets bypass the memory. */
  #last: RememberedSet | undefined = undefined;
  /** Hits less misses, but for the last set. */
  #balance = 0;
  /** How many sets still bypass the memory. */
  #bypassing = 0;

  constructor(index: KeyIndex) {
    this.#index = index;
  }

  /**
   * Throws for a value that cannot be a key, and for too many keys. It reads each key once, and compares, hashes and
   * remembers what it has read: a list may have getters, or be a Proxy, and return something else the next time.
   */
  setOf<K extends LockKey>(keys: readonly K[]): KeySet<K> {
    const last = this.#last;
    const count = keys.length;
    if (last !== undefined && last.keys.length === count) {
      const known = last.keys as readonly K[];
      let key = keys[0]!;
      let same = 0;
      while (key === known[same] && ++same < count) key = keys[same]!;
      if (same === count && last.unpins === this.#index.unpins) return last as RememberedSet<K>;
      return this.#lookUp(keys, count, known, same, key);
    }
    checkCount(count);
    if (this.#bypassing > 0) {
      this.#bypassing--;
      return count === 2 ? this.#readPair(keys) : this.#read(keys, count);
    }
    if (count === 0 || count > MANY_KEYS) return this.#read(keys, count);
    return this.#lookUp(keys, count, [], 0, keys[0]!);
  }

  /** The first `read` keys are those of `known`, and `key` is the next. Copies the list only if its set is not remembered. */
  #lookUp<K extends LockKey>(
    list: readonly K[],
    count: number,
    known: readonly K[],
    read: number,
    key: K,
  ): KeySet<K> {
    const first = this.#index.stripeOf(read === 0 ? key : known[0], 'keys[]');
    const sets =
      count > FEW_KEYS ? (this.#large ??= emptySets(LARGE_SETS)) : (this.#small ??= emptySets(SMALL_SETS));
    const at = (first + count) & (sets.length - 1);
    const remembered = sets[at] as RememberedSet<K> | undefined;
    if (
      remembered?.keys.length === count &&
      remembered.unpins === this.#index.unpins &&
      startsWith(remembered.keys, known, read, key)
    ) {
      known = remembered.keys;
      while (key === known[read] && ++read < count) key = list[read]!;
      if (read === count) {
        if (this.#balance < MISSES) this.#balance++;
        this.#last = remembered;
        return remembered;
      }
    }
    const keys = copyOf(list, count, known, read, key);
    const set = this.#read(keys, count, keys);
    if (keys.every(isRememberable)) this.#remember(set, sets, at);
    return set;
  }

  #remember(set: RememberedSet, sets: (RememberedSet | undefined)[], at: number): void {
    sets[at] = set;
    this.#last = set;
    if (--this.#balance <= -MISSES) {
      this.#balance = 0;
      this.#bypassing = BYPASSING;
      this.#last = undefined;
    }
  }

  /** The usual number of keys. */
  #readPair<K extends LockKey>(list: readonly K[]): KeySet<K> {
    const index = this.#index;
    const first = list[0]!;
    const second = list[1]!;
    const a = index.stripeOf(first, 'keys[]');
    const b = index.stripeOf(second, 'keys[]');
    return new KeyPair(a === b ? [a] : [lower(a, b), higher(a, b)], first, second);
  }

  /** Puts what it reads into `keys`. */
  #read<K extends LockKey>(list: readonly K[], count: number, keys = new Array<K>(count)): RememberedSet<K> {
    const index = this.#index;
    const { unpins } = index;
    const stripes = new Array<number>(count);
    for (let i = 0; i < count; i++) {
      const key = list[i]!;
      // Throws at once for a value that is not a key, not after reading all of them.
      stripes[i] = index.stripeOf(key, count > SHORT_LIST ? `keys[${i}]` : 'keys[]');
      keys[i] = key;
    }
    return { stripes: ordered(stripes), keys, unpins };
  }
}

function emptySets(count: number): (RememberedSet | undefined)[] {
  return new Array<undefined>(count).fill(undefined);
}

/** Checks that the length is a count: a Proxy may return anything. */
function checkCount(count: number): void {
  if (Number.isInteger(count) && count >= 0 && count <= MAX_KEYS) return;
  throw outOfRange('keys.length', `an integer from 0 to ${MAX_KEYS}`, count);
}

/** Whether a list begins with the first `count` keys of `known`, followed by `key`. */
function startsWith<K>(list: readonly K[], known: readonly K[], count: number, key: K): boolean {
  for (let i = 0; i < count; i++) if (list[i] !== known[i]) return false;
  return list[count] === key;
}

/** Reads the rest of a list, of which the first `read` keys are those of `known`, and `key` is the next. */
function copyOf<K>(list: readonly K[], count: number, known: readonly K[], read: number, key: K): K[] {
  const copy = new Array<K>(count);
  for (let i = 0; i < count; i++) copy[i] = i < read ? known[i]! : i === read ? key : list[i]!;
  return copy;
}
