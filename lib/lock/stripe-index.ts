import { hasMemory, isBytes } from '../common/bytes.js';
import { invalidArg, invalidArgType, outOfRange } from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import { CACHED_KEYS, StripeCache } from './stripe-cache.js';

/** Passed as `at`, in place of an index, for the only key of an acquisition. That acquisition must look up no other key. */
export const ONLY_KEY = -1;

/** Finds the stripes of a lock's keys, in one thread. */
export interface KeyIndex {
  /**
   * Increases when keys may have lost their stripes. After a change, a stripe that was looked up earlier may belong to
   * another key.
   */
  readonly unpins: number;
  /** The stripe of a key. Throws for a value that cannot be a key. `at`: its index in the list, or {@link ONLY_KEY}. */
  stripeOf(key: unknown, at: number): number;
  /** The stripes of an acquisition's keys. `keys` must be a list that no code of the program can reach. */
  stripesOf(keys: readonly unknown[]): number[];
  /**
   * Reserves these stripes for their keys until {@link end}. Call this before code of the program runs, unless the
   * stripes are held or waited for.
   */
  keep(stripes: readonly number[]): void;
  end(): void;
}

/** Longer strings are not remembered. This bounds the memory of a cache to a few megabytes. */
const REMEMBERED_LENGTH = 256;
/** The number of longer strings that are remembered, if they are at most {@link LONG_LENGTH} long. A power of two. */
const LONG_STRINGS = 4;
const LONG_LENGTH = 65_536;

/** Whether a key may be remembered. Bytes may not, because the program can change them. */
export function isRememberable(key: unknown): boolean {
  return typeof key === 'string' ? key.length <= REMEMBERED_LENGTH : typeof key === 'number';
}

/** `Array.isArray` for read-only lists. False for a revoked Proxy, for which `Array.isArray` throws. */
export function isList<K extends LockKey>(keys: K | readonly K[]): keys is readonly K[] {
  try {
    return Array.isArray(keys);
  } catch {
    return false;
  }
}

/** Throws unless the value is a key. `at`: its index in the list, or {@link ONLY_KEY}. */
export function checkKey(key: unknown, at: number): void {
  if (typeof key === 'string') return;
  const name = at === ONLY_KEY ? 'key' : `keys[${at}]`;
  if (isBytes(key)) {
    if (hasMemory(key)) return;
    throw invalidArg(
      `${name} must be bytes that can be read; the memory of this Uint8Array was detached or shrank`,
    );
  }
  if (typeof key !== 'number') throw invalidArgType(name, 'a string, a safe integer or a Uint8Array', key);
  if (!Number.isSafeInteger(key)) throw outOfRange(name, 'a safe integer', key);
}

/**
 * Hashes keys to stripes. Strings are hashed once and then remembered: a look-up in a map is several times cheaper than
 * a call of the addon, or than hashing in JavaScript.
 *
 * Long strings are not in the map, because V8 would hash them as well, more slowly than the addon. A few of them are
 * remembered by their length. Comparing a long string with the remembered one is cheap: they are usually the same
 * object, or differ early.
 */
export class HashedKeys implements KeyIndex {
  readonly unpins = 0;
  readonly #stripes: number;
  /** The mask that replaces a division if the number of stripes is a power of two; else -1. */
  readonly #mask: number;
  readonly #hash: (key: string | Uint8Array) => number;
  readonly #cache = new StripeCache(CACHED_KEYS, ignore);
  #long: { key: string; stripe: number }[] | undefined = undefined;

  constructor(stripes: number, hash: (key: string | Uint8Array) => number) {
    this.#stripes = stripes;
    this.#mask = (stripes & (stripes - 1)) === 0 ? stripes - 1 : -1;
    this.#hash = hash;
  }

  stripeOf(key: unknown, at: number): number {
    if (typeof key === 'string') return this.#cache.searched?.get(key) ?? this.#stringStripeSlow(key);
    if (typeof key === 'number' && (key | 0) === key) return this.#fold(mix(key));
    return this.#otherStripe(key, at);
  }

  stripesOf(keys: readonly unknown[]): number[] {
    const stripes = new Array<number>(keys.length);
    for (let i = 0; i < keys.length; i++) stripes[i] = this.stripeOf(keys[i], i);
    return stripes;
  }

  keep(): void {
    // A hashed key always has the same stripe.
  }

  end(): void {
    // See keep().
  }

  #fold(hash: number): number {
    return this.#mask >= 0 ? hash & this.#mask : (hash >>> 0) % this.#stripes;
  }

  #otherStripe(key: unknown, at: number): number {
    checkKey(key, at);
    return typeof key === 'number' ? this.#fold(mix(longInteger(key))) : this.#hash(key as Uint8Array);
  }

  #stringStripeSlow(key: string): number {
    if (!isRememberable(key)) return this.#longStripe(key);
    const known = this.#cache.find(key);
    if (known !== undefined) return known;
    const stripe = this.#hash(key);
    this.#cache.add(key, stripe);
    return stripe;
  }

  #longStripe(key: string): number {
    if (key.length > LONG_LENGTH) return this.#hash(key);
    const long = (this.#long ??= Array.from({ length: LONG_STRINGS }, () => ({ key: '', stripe: -1 })));
    const last = long[key.length & (LONG_STRINGS - 1)]!;
    if (last.key !== key) {
      last.stripe = this.#hash(key);
      last.key = key;
    }
    return last.stripe;
  }
}

const ignore = (): void => undefined;

/** Derived from the golden ratio. Without it, `n * 2 ** 32` would have the same hash as `n`. */
const LOW_HALF = 0x9e37_79b9;

function longInteger(key: number): number {
  return mix((key | 0) ^ LOW_HALF) ^ Math.floor(key / 0x1_0000_0000);
}

/**
 * The finalizer of MurmurHash3 (Austin Appleby, public domain). A 32-bit integer is mixed once. {@link longInteger}
 * first mixes the low 32 bits, and the combination with the high bits is mixed again.
 */
function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85eb_ca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2_ae35);
  return h ^ (h >>> 16);
}
