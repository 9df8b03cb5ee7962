/** A generation of the cache: room for so many strings, and for so many other entries beside them. */
interface Size {
  readonly strings: number;
  readonly padding: number;
}

/**
 * Each size fills most of a table of V8, whose capacity is a power of two: 8, 512, 4096, 32,768 and 65,536 entries of 28
 * bytes. See {@link StripeCache}.
 */
const SIZES: readonly [Size, ...Size[]] = [
  { strings: 8, padding: 0 },
  { strings: 64, padding: 384 },
  { strings: 512, padding: 3072 },
  { strings: 4096, padding: 24_576 },
  { strings: 24_576, padding: 40_000 },
];
/** A generation ends early with so many characters in it: strings take at most 2 MiB then. */
const CHARACTERS = 1_048_576;
/** The next generation is prepared while the last part of this one, an eighth, is filled: so many entries at a time. */
const PREPARED = 384;
/** The value of an entry that is only padding. */
const PADDING = -1;

/** So many strings fit into one generation. */
export const CACHED_STRINGS = SIZES[SIZES.length - 1]!.strings;

/**
 * Remembers the stripes of strings.
 *
 * V8 chains entries whose hashes share a bucket, and lets a table fill up until there are two entries to a bucket. Then
 * nobody can predict how long a chain is, and each wrong guess of the processor costs more than the rest of the look-up.
 * So a table is filled with integers first, which no string equals. V8 puts new entries at the front of their chains, so a
 * string usually is the first, and its look-up takes a third of the time.
 *
 * Two generations bound the cache. When the young one is full, it becomes the old one, and old entries that were not used
 * since are forgotten. So keys in steady use stay, and the cache need not keep an order of use. The next generation is
 * larger, until the largest: a lock with few keys takes little memory, and no call moves all entries at once.
 */
export class StripeCache {
  /** Strings and their stripes, and padding. For look-ups only: a string that is missing may still be in the old one. */
  young = new Map<string | number, number>();
  #old: ReadonlyMap<string | number, number> | undefined;
  /** Becomes the young generation when this one is full; its padding is incomplete until then. */
  #next: Map<string | number, number> | undefined;
  #level = 0;
  #characters = 0;

  /** The stripe of a string that the young generation does not have, if the old one does. */
  inOld(key: string): number | undefined {
    return this.#old?.get(key);
  }

  /** The string must not be in the young generation. */
  add(key: string, stripe: number): void {
    const { strings, padding } = SIZES[this.#level]!;
    const used = this.young.size - padding;
    if (used >= strings || this.#characters >= CHARACTERS) this.#turn();
    else if (used >= strings - (strings >> 3)) this.#prepare(PREPARED);
    this.#characters += key.length;
    this.young.set(key, stripe);
  }

  get #nextLevel(): number {
    return Math.min(this.#level + 1, SIZES.length - 1);
  }

  #prepare(most: number): Map<string | number, number> {
    const next = (this.#next ??= new Map<string | number, number>());
    const end = Math.min(SIZES[this.#nextLevel]!.padding, next.size + most);
    for (let i = next.size; i < end; i++) next.set(i, PADDING);
    return next;
  }

  #turn(): void {
    const next = this.#prepare(Infinity);
    this.#old = this.young;
    this.young = next;
    this.#next = undefined;
    this.#level = this.#nextLevel;
    this.#characters = 0;
  }
}
