/** The state of a {@link StripeCache}. */
type State = 'used' | 'filling' | 'bypassed';

/** A cache changes from the state `filling` to `used` when its hits exceed its misses by this number. */
const HITS = 64;
/** A cache returns from the state `used` to `filling` after this many misses. */
const MISSES = 1024;
/**
 * A cache returns from the state `bypassed` to `filling` after `BYPASSING * most` look-ups. Here, `most` is
 * the maximum number of keys in the cache.
 */
const BYPASSING = 64;

/**
 * A size of the map: the number of keys, and the number of padding entries that are inserted before the keys.
 */
interface Size {
  readonly keys: number;
  readonly padding: number;
}

/**
 * The sizes through which the map grows. The capacity of a V8 hash table is a power of two, and each size
 * fills most of such a table: 8, 512, 4096, 32,768, 65,536 or 131,072 entries.
 */
const SIZES: readonly [Size, ...Size[]] = [
  { keys: 8, padding: 0 },
  { keys: 64, padding: 384 },
  { keys: 512, padding: 3072 },
  { keys: 4096, padding: 24_576 },
  { keys: 24_576, padding: 40_000 },
  { keys: 49_152, padding: 80_000 },
];
/** The maximum number of keys in a cache. */
export const CACHED_KEYS = SIZES[SIZES.length - 1]!.keys;
/**
 * The maximum number of characters in all strings of a cache together. These characters take at most 4 MiB.
 */
const CHARACTERS = 2_097_152;
/** The value of a padding entry. */
const PADDING = -1;

/**
 * A bounded map from keys to their stripes, for one thread and one lock. When the map is full, all its keys
 * are dropped. Dropping only the oldest key would not help: a program that uses more keys than fit would
 * still miss most of them.
 *
 * The cache is in one of three states:
 * - `filling`: hits and misses are counted, and a key is added after a miss. When the hits exceed the misses
 *   by 64, the state becomes `used`. When the misses exceed the hits by the maximum number of keys, the state
 *   becomes `bypassed`.
 * - `used`: a hit costs one look-up in the map and is not counted. After 1024 misses, the state becomes
 *   `filling`.
 * - `bypassed`: the map is empty and not used, because a miss costs more than finding the stripe without the
 *   cache. The state becomes `filling` after many requests: 64 times the maximum number of keys.
 *
 * The map also contains integers as padding, because of how V8 stores a map. V8 chains the entries of a hash
 * bucket, two on average in a full map. The processor mispredicts the length of the chain, and the
 * misprediction costs more than the rest of the look-up. V8 inserts an entry at the front of its chain. The
 * padding is inserted first and the keys later, so a key is usually the first entry of its chain. Without
 * padding, acquisitions were 20 to 35 % slower with 1000 keys, and 45 to 70 % slower with 20,000. If a
 * program uses one of these integers as a key, the key replaces the padding entry.
 *
 * After a stack overflow, a key may be missing from the map, but the map never contains a dropped key.
 */
export class StripeCache {
  /** The map in state `used`, otherwise undefined. Negative values are padding, not stripes. */
  searched: ReadonlyMap<unknown, number> | undefined = undefined;
  #map = new Map<unknown, number>();
  readonly #most: number;
  readonly #onDrop: (stripes: Iterable<number>) => void;
  #state: State = 'filling';
  /**
   * What is counted since the last change of the state depends on the state. `filling`: the hits minus the
   * misses. `used`: the misses. `bypassed`: the look-ups.
   */
  #count = 0;
  /** The index of the map's current size in {@link SIZES}. */
  #level = 0;
  #keys = 0;
  #characters = 0;

  /**
   * `most`: the maximum number of keys. `onDrop` receives the stripes of dropped keys, and also
   * the negative values of padding.
   */
  constructor(most: number, onDrop: (stripes: Iterable<number>) => void) {
    this.#most = most;
    this.#onDrop = onDrop;
  }

  /**
   * Looks up a key that is not in {@link searched}, and counts the look-up. Returns undefined if the key is
   * not in the cache.
   */
  find(key: unknown): number | undefined {
    if (this.#state === 'bypassed') {
      if (++this.#count >= BYPASSING * this.#most) this.#enter('filling');
      return undefined;
    }
    const value = this.#map.get(key);
    const stripe = value !== undefined && value >= 0 ? value : undefined;
    if (this.#state === 'used') {
      if (++this.#count >= MISSES) this.#enter('filling');
    } else if (stripe === undefined) {
      if (--this.#count <= -this.#most) this.bypass();
    } else if (++this.#count >= HITS) {
      this.#enter('used');
    }
    return stripe;
  }

  /** Adds a key that is not in the cache. Returns false if the cache is bypassed. */
  add(key: unknown, stripe: number): boolean {
    if (this.#state === 'bypassed') return false;
    if (this.#keys >= this.#most || this.#characters >= CHARACTERS) this.#empty(this.#level);
    else if (this.#keys >= SIZES[this.#level]!.keys) this.#grow();
    this.#keys++;
    if (typeof key === 'string') this.#characters += key.length;
    this.#map.set(key, stripe);
    return true;
  }

  /** Drops all keys, and bypasses the cache for a while. */
  bypass(): void {
    this.#enter('bypassed');
    if (this.#keys > 0) this.#empty(0);
  }

  #enter(state: State): void {
    this.#state = state;
    this.#count = 0;
    this.searched = state === 'used' ? this.#map : undefined;
  }

  #grow(): void {
    const larger = emptyMap(++this.#level);
    for (const [key, stripe] of this.#map) if (stripe >= 0) larger.set(key, stripe);
    this.#replace(larger);
  }

  #empty(level: number): void {
    const dropped = this.#map.values();
    this.#replace(emptyMap(level));
    this.#level = level;
    this.#keys = 0;
    this.#characters = 0;
    this.#onDrop(dropped);
  }

  #replace(map: Map<unknown, number>): void {
    this.#map = map;
    if (this.searched !== undefined) this.searched = map;
  }
}

function emptyMap(level: number): Map<unknown, number> {
  const map = new Map<unknown, number>();
  const { padding } = SIZES[level]!;
  for (let i = 0; i < padding; i++) map.set(i, PADDING);
  return map;
}
