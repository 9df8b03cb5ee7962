/** The maximum number of stripes that are sorted by the sorting network, {@link sortFew}. */
const NETWORK = 8;
/**
 * The maximum number of stripes that are sorted by insertion. For so few stripes, this is faster than a call
 * of `sort`.
 */
const INSERTION = 24;
/** A number higher than any stripe, for unused inputs of the network. */
const NONE = 0x7fff_ffff;

/** Sorts stripes and removes duplicates. Returns either the same list or a new list. */
export function ordered(stripes: number[]): number[] {
  const count = stripes.length;
  if (count < 2) return stripes;
  if (count === 2) return orderedPair(stripes);
  if (count <= NETWORK) return sortFew(stripes, count) ? stripes : different(stripes);
  if (count > INSERTION) return different(Int32Array.from(stripes).sort());
  sortByInsertion(stripes);
  return different(stripes);
}

/**
 * Batcher's odd-even mergesort, a sorting network, for 3 to 8 stripes. Returns false if there are duplicates.
 *
 * The network has no branches. The processor could not predict how the stripes of two keys compare, and a
 * misprediction costs as much as four steps of the network. With an insertion sort, acquiring eight new keys
 * takes 20 to 35 % longer. With loops that compare without branches, the acquisition takes 10 to 15 % longer.
 */
function sortFew(stripes: number[], count: number): boolean {
  let a = stripes[0]! | 0;
  let b = stripes[1]! | 0;
  let c = stripes[2]! | 0;
  let d = count > 3 ? stripes[3]! | 0 : NONE;
  let e = count > 4 ? stripes[4]! | 0 : NONE;
  let f = count > 5 ? stripes[5]! | 0 : NONE;
  let g = count > 6 ? stripes[6]! | 0 : NONE;
  let h = count > 7 ? stripes[7]! | 0 : NONE;
  // prettier-ignore
  {
    let low: number;
    low = lower(a, b); b = higher(a, b); a = low;
    low = lower(c, d); d = higher(c, d); c = low;
    low = lower(e, f); f = higher(e, f); e = low;
    low = lower(g, h); h = higher(g, h); g = low;

    low = lower(a, c); c = higher(a, c); a = low;
    low = lower(b, d); d = higher(b, d); b = low;
    low = lower(e, g); g = higher(e, g); e = low;
    low = lower(f, h); h = higher(f, h); f = low;

    low = lower(b, c); c = higher(b, c); b = low;
    low = lower(f, g); g = higher(f, g); f = low;

    low = lower(a, e); e = higher(a, e); a = low;
    low = lower(b, f); f = higher(b, f); b = low;
    low = lower(c, g); g = higher(c, g); c = low;
    low = lower(d, h); h = higher(d, h); d = low;

    low = lower(c, e); e = higher(c, e); c = low;
    low = lower(d, f); f = higher(d, f); d = low;

    low = lower(b, c); c = higher(b, c); b = low;
    low = lower(d, e); e = higher(d, e); d = low;
    low = lower(f, g); g = higher(f, g); f = low;
  }
  stripes[0] = a;
  stripes[1] = b;
  // `same` becomes negative if two neighbours are equal: their XOR is 0, and 0 minus 1 is negative.
  let same = (a ^ b) - 1;
  same |= ((stripes[2] = c) ^ b) - 1;
  if (count > 3) same |= ((stripes[3] = d) ^ c) - 1;
  if (count > 4) same |= ((stripes[4] = e) ^ d) - 1;
  if (count > 5) same |= ((stripes[5] = f) ^ e) - 1;
  if (count > 6) same |= ((stripes[6] = g) ^ f) - 1;
  if (count > 7) same |= ((stripes[7] = h) ^ g) - 1;
  return same >= 0;
}

function orderedPair(stripes: number[]): number[] {
  const a = stripes[0]!;
  const b = stripes[1]!;
  if (a === b) return [a];
  stripes[0] = lower(a, b);
  stripes[1] = higher(a, b);
  return stripes;
}

/** The lower of two stripes, without a branch: see {@link sortFew}. */
function lower(a: number, b: number): number {
  const difference = (a - b) | 0;
  return (b + (difference & (difference >> 31))) | 0;
}

/** The higher of two stripes, without a branch: see {@link sortFew}. */
function higher(a: number, b: number): number {
  const difference = (a - b) | 0;
  return (a - (difference & (difference >> 31))) | 0;
}

function sortByInsertion(stripes: number[]): void {
  for (let i = 1; i < stripes.length; i++) {
    const stripe = stripes[i]!;
    let at = i;
    for (; at > 0 && stripes[at - 1]! > stripe; at--) stripes[at] = stripes[at - 1]!;
    stripes[at] = stripe;
  }
}

/** Removes duplicates from an ascending list. */
function different(sorted: ArrayLike<number>): number[] {
  const all: number[] = [];
  for (let i = 0; i < sorted.length; i++) {
    if (i === 0 || sorted[i] !== sorted[i - 1]) all.push(sorted[i]!);
  }
  return all;
}
