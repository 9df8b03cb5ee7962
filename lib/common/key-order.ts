/** Compares texts by code points. The order is the same as that of their UTF-8 bytes. */
export function compareKeys(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return rankOf(x) - rankOf(y);
  }
  return a.length - b.length;
}

/**
 * The code units of surrogate pairs rank after all other units, because they encode the highest code points.
 */
function rankOf(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/**
 * Keeps the first `most` of the added items, in the order of their keys. Of several items with the same key,
 * keeps only one.
 */
export class FirstKeys<T> {
  readonly #most: number;
  readonly #keyOf: (item: T) => string;
  #items: T[] = [];

  constructor(most: number, keyOf: (item: T) => string) {
    this.#most = most;
    this.#keyOf = keyOf;
  }

  add(item: T): void {
    // Sorting twice as many items from time to time is cheaper than inserting each item in its place.
    if (this.#items.push(item) >= 2 * this.#most) this.#items = this.sorted();
  }

  /** The kept items in order. */
  sorted(): T[] {
    const compare = (a: T, b: T): number => compareKeys(this.#keyOf(a), this.#keyOf(b));
    const items = this.#items.sort(compare);
    return items.filter((item, i) => i === 0 || compare(items[i - 1]!, item) !== 0).slice(0, this.#most);
  }
}
