import { outOfRange } from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import { MAX_STRIPES } from '../engine/contract/layout.js';
import { checkKey, isRememberable, type KeyIndex } from './stripe-index.js';
import { ordered } from './stripe-order.js';

/**
 * The maximum length of a list that is remembered. The length of remembered strings is limited,
 * too, so the memory is bounded.
 */
const REMEMBERED_KEYS = 128;
/** The maximum number of keys of one acquisition. More keys would block the thread for seconds. */
const MAX_KEYS = MAX_STRIPES;

/** A list of keys to acquire together, and their stripes. Immutable. */
export interface KeySet<K extends LockKey = LockKey> {
  /**
   * The stripes of the keys, ascending and without duplicates. A field, not a getter, because code reads
   * `stripes` where no function may be called (T1 of `LockTable`).
   */
  readonly stripes: readonly number[];
  /** The keys as they were passed, duplicates included. */
  readonly keys: readonly K[];
}

/** The {@link KeySet} of the most recent list of keys. */
interface LastSet<K extends LockKey = LockKey> extends KeySet<K> {
  /**
   * The value of the index's `unpins` when the stripes were looked up. If `unpins` has changed since,
   * the keys may have other stripes.
   */
  readonly unpins: number;
}

const NO_SET: LastSet<never> = { stripes: [], keys: [], unpins: -1 };

/**
 * Creates the key sets of one lock in one thread, and remembers the last set. Comparing eight keys with the
 * last set takes a third of the time that finding and sorting their stripes would take.
 *
 * Sets of two keys are not remembered. Programs that acquire pairs of keys, for instance for a transfer
 * between two accounts, rarely repeat a pair. Remembering pairs made the acquisition of a pair 30 to 40 %
 * slower. Only one set is remembered: a cache of 256 sets gained at most 4 %, in a program that used 128 sets
 * of eight keys in turn.
 *
 * Reading a list may run code that acquires other keys, because the list may be a Proxy or have getters. So
 * all keys are read before the first key is looked up. Each key is read only once, and the value from this
 * read is compared and stored.
 */
export class KeySets {
  readonly #index: KeyIndex;
  #last: LastSet = NO_SET;

  constructor(index: KeyIndex) {
    this.#index = index;
  }

  /** The set for a list of keys. Throws for a value that is not a key, and for too many keys. */
  setOf<K extends LockKey>(list: readonly K[]): KeySet<K> {
    const index = this.#index;
    const last = this.#last as LastSet<K>;
    const count = list.length;
    const keys = count === 2 ? [keyIn(list, 0), keyIn(list, 1)] : keysOf(list, count, last.keys);
    if (keys === last.keys && last.unpins === index.unpins) return last;
    const stripes = ordered(index.stripesOf(keys));
    const set = { stripes, keys, unpins: index.unpins };
    if (count > 2 && count <= REMEMBERED_KEYS && keys.every(isRememberable)) this.#last = set;
    return set;
  }
}

/**
 * Reads the keys of a list into a new list. Returns `known` instead if the list has the same keys. Throws at
 * the first value that is not a key, without reading the values behind it.
 */
function keysOf<K extends LockKey>(list: readonly K[], count: number, known: readonly K[]): readonly K[] {
  if (count !== known.length) {
    checkCount(count);
    return readRest(list, new Array<K>(count), 0);
  }
  for (let same = 0; same < count; same++) {
    const key = list[same]!;
    if (key === known[same]) continue;
    checkKey(key, same);
    const keys = new Array<K>(count);
    for (let i = 0; i < same; i++) keys[i] = known[i]!;
    keys[same] = key;
    return readRest(list, keys, same + 1);
  }
  return known;
}

function readRest<K extends LockKey>(list: readonly K[], keys: K[], from: number): K[] {
  for (let i = from; i < keys.length; i++) keys[i] = keyIn(list, i);
  return keys;
}

function keyIn<K extends LockKey>(list: readonly K[], i: number): K {
  const key = list[i]!;
  checkKey(key, i);
  return key;
}

/** Checks the length of a list. A Proxy may return any value as its length. */
function checkCount(count: number): void {
  if (Number.isInteger(count) && count >= 0 && count <= MAX_KEYS) return;
  throw outOfRange('keys.length', `an integer from 0 to ${MAX_KEYS}`, count);
}
