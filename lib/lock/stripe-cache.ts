/** What the cache does now; see {@link StripeCache}. */
type State = 'used' | 'filling' | 'bypassed';

/** With this many more hits than misses the cache pays. */
const HITS = 64;
/** How many misses while it is used make it doubtful whether it pays. */
const MISSES = 1024;
/** How many times as many keys bypass the cache as it took to see that it does not pay, which costs several times as much. */
const BYPASSING = 64;

/** A generation of the cache: how many keys it has room for, and how many other entries beside them. */
interface Size {
  readonly keys: number;
  readonly padding: number;
}

/**
 * Each size fills most of a table of V8, whose capacity is a power of two: 8, 512, 4096, 32,768 and 65,536 entries of 28
 * bytes. See {@link StripeCache}.
 */
const SIZES: readonly [Size, ...Size[]] = [
  { keys: 8, padding: 0 },
  { keys: 64, padding: 384 },
  { keys: 512, padding: 3072 },
  { keys: 4096, padding: 24_576 },
  { keys: 24_576, padding: 40_000 },
];
/** The most keys that a generation can have. */
export const CACHED_KEYS = SIZES[SIZES.length - 1]!.keys;
/** A generation ends early with this many characters in it: strings take at most 2 MiB then. */
const CHARACTERS = 1_048_576;
/** The value of an entry that is only padding. */
const PADDING = -1;

/**
 * Remembers the stripes of keys, for one thread and one lock. It is in one of three states:
 * - Filling: all look-ups are counted, and misses are remembered. With 64 more hits than misses the cache is used. With as
 *   many more misses than hits as there is room for, it is bypassed.
 * - Used: a hit costs one look-up in a Map, and is not counted. After 1024 misses the cache is filling again.
 * - Bypassed: it is empty, and 64 times as many keys as fit are neither looked for nor remembered, as a miss costs more than
 *   to find a stripe anew. Then it is filling.
 *
 * V8 chains entries whose hashes share a bucket, and lets a table fill up until there are two entries to a bucket. Then
 * nobody can predict how long a chain is, and each wrong guess of the processor costs more than the rest of the look-up.
 * So a table is filled with integers first. V8 puts new entries at the front of their chains, so a key usually is the
 * first, and its look-up takes a third of the time. A key that is one of these integers takes the place of its padding.
 *
 * Two generations bound the cache. When the young one is full, it becomes the old one, and old entries that were not used
 * since are dropped. So keys in steady use stay, and the cache need not keep an order of use. The next generation is
 * larger, until the largest: a lock with few keys takes little memory.
 *
 * After a stack overflow a key may be missing, but never is in both generations, nor here once it was dropped.
 */
export class StripeCache {
  /** What a look-up searches first; only a stripe counts, which is at least 0. Undefined unless the cache is used. */
  searched: ReadonlyMap<unknown, number> | undefined = undefined;
  #young = new Map<unknown, number>();
  #old = new Map<unknown, number>();
  readonly #most: number;
  readonly #onDrop: (stripes: Iterable<number>) => void;
  #state: State = 'filling';
  /** Filling: hits less misses. Used: misses. Bypassed: look-ups. */
  #count = 0;
  #level = 0;
  /** Keys in the young generation, and characters of those that are strings. */
  #size = 0;
  #characters = 0;

  /** `most`: keys in a generation. `onDrop` is told which stripes leave the cache, and of values below 0 among them. */
  constructor(most: number, onDrop: (stripes: Iterable<number>) => void) {
    this.#most = most;
    this.#onDrop = onDrop;
  }

  /** The stripe of a key that {@link searched} does not have. */
  find(key: unknown): number | undefined {
    if (this.#state === 'bypassed') {
      if (++this.#count >= BYPASSING * this.#most) this.#enter('filling');
      return undefined;
    }
    const stripe = this.#search(key);
    if (this.#state === 'used') {
      if (++this.#count >= MISSES) this.#enter('filling');
    } else if (stripe === undefined) {
      if (--this.#count <= -this.#most) this.empty();
    } else if (++this.#count >= HITS) {
      this.#enter('used');
    }
    return stripe;
  }

  /** Remembers a key that is not in the cache. False if the cache is bypassed. */
  add(key: unknown, stripe: number): boolean {
    if (this.#state === 'bypassed') return false;
    if (this.#size >= Math.min(SIZES[this.#level]!.keys, this.#most) || this.#characters >= CHARACTERS)
      this.#turn();
    this.#size++;
    if (typeof key === 'string') this.#characters += key.length;
    this.#young.set(key, stripe);
    return true;
  }

  /** Drops all keys. From now on the cache is bypassed. */
  empty(): void {
    this.#enter('bypassed');
    if (this.#size + this.#old.size === 0) return;
    const dropped = [this.#old, this.#young];
    this.#old = new Map();
    this.#level = 0;
    this.#start(new Map());
    for (const generation of dropped) this.#onDrop(generation.values());
  }

  #search(key: unknown): number | undefined {
    const young = this.#young.get(key);
    if (young !== undefined && young >= 0) return young;
    const old = this.#old.get(key);
    if (old === undefined || old < 0) return undefined;
    // This order keeps a key from being in both.
    this.#old.delete(key);
    this.add(key, old);
    return old;
  }

  #enter(state: State): void {
    this.#state = state;
    this.#count = 0;
    this.searched = state === 'used' ? this.#young : undefined;
  }

  #turn(): void {
    this.#level = Math.min(this.#level + 1, SIZES.length - 1);
    const next = new Map<unknown, number>();
    const { padding } = SIZES[this.#level]!;
    for (let i = 0; i < padding; i++) next.set(i, PADDING);
    const dropped = this.#old;
    this.#old = this.#young;
    this.#start(next);
    this.#onDrop(dropped.values());
  }

  #start(young: Map<unknown, number>): void {
    this.#young = young;
    this.#size = 0;
    this.#characters = 0;
    if (this.#state === 'used') this.searched = young;
  }
}
