import { outOfRange } from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import { MAX_STRIPES } from '../engine/contract/layout.js';
import { checkKey, isRememberable, type KeyIndex } from './stripe-index.js';
import { ordered } from './stripe-order.js';

/**
 * Longer lists are not remembered. Together with the limit on the length of remembered strings, this bounds the memory.
 */
const REMEMBERED_KEYS = 128;
/** The most keys of one acquisition. More would block the thread for seconds. */
const MAX_KEYS = MAX_STRIPES;

/** The keys of an acquisition of several keys, and their stripes. Immutable. */
export interface KeySet<K extends LockKey = LockKey> {
  /**
   * Ascending and without duplicates. A field rather than a getter, because it is read where no function may be called
   * (T1).
   */
  readonly stripes: readonly number[];
  /** The keys that were passed, duplicates included. */
  readonly keys: readonly K[];
}

/** The set of the most recent list of keys. */
interface LastSet<K extends LockKey = LockKey> extends KeySet<K> {
  /** The index's `unpins` when the stripes were looked up. If it has changed, the keys may have other stripes. */
  readonly unpins: number;
}

const NO_SET: LastSet<never> = { stripes: [], keys: [], unpins: -1 };

/**
 * Creates the key sets of one lock in one thread. It remembers the last set, because comparing eight keys takes a third
 * of the time of finding and sorting their stripes. It does not remember pairs: programs with pairs, such as transfers
 * between accounts, rarely repeat one, and remembering each pair made an acquisition 30 to 40 % slower. A cache of 256
 * sets was not worth its code: with 128 sets of eight keys in turn, it gained at most 4 %.
 *
 * A list may be a Proxy or have getters, which may acquire other keys. So each key is read once, only the values read are
 * compared and kept, and all keys are read before the first is looked up.
 */
export class KeySets {
  readonly #index: KeyIndex;
  #last: LastSet = NO_SET;

  constructor(index: KeyIndex) {
    this.#index = index;
  }

  /** Throws for a value that cannot be a key, and for too many keys. */
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
 * Reads the keys of a list into a new list. Returns `known` if it has the same keys. Throws at the first value that is
 * not a key, before the later ones are read.
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

/** Checks that the length is a valid count, because a Proxy may return any value. */
function checkCount(count: number): void {
  if (Number.isInteger(count) && count >= 0 && count <= MAX_KEYS) return;
  throw outOfRange('keys.length', `an integer from 0 to ${MAX_KEYS}`, count);
}
