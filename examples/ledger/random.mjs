// @ts-check
/**
 * A seeded source of random numbers, so that one seed always writes the same file of transfers:
 * `Math.random()` cannot be seeded.
 *
 * xoshiro128** 1.1 by David Blackman and Sebastiano Vigna (https://prng.di.unimi.it/).
 */

/**
 * @param {number} value
 * @param {number} bits
 */
const rotateLeft = (value, bits) => (value << bits) | (value >>> (32 - bits));

/**
 * Spreads one 32-bit seed over the four words of state, which must look unrelated and not all be
 * zero: a Weyl sequence through MurmurHash3's finalizer. That is a bijection, so that no two of
 * the four words are equal.
 *
 * @param {number} seed
 * @returns {[number, number, number, number]}
 */
function spread(seed) {
  let weyl = seed;
  const word = () => {
    weyl = (weyl + 0x9e3779b9) | 0;
    let mixed = weyl;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return mixed ^ (mixed >>> 16);
  };
  return [word(), word(), word(), word()];
}

/**
 * @param {readonly [number, number, number, number]} state Not all zero.
 * @returns {() => number} The next integer, 0 … 2^32 - 1.
 */
export function xoshiro128(state) {
  let [a, b, c, d] = state;
  return () => {
    const result = Math.imul(rotateLeft(Math.imul(b, 5), 7), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotateLeft(d, 11);
    return result;
  };
}

/**
 * @param {number} seed An integer, 0 … 2^32 - 1.
 * @returns {() => number} The next number in [0, 1), with all 53 bits of a double, as `Math.random()`.
 */
export function seededRandom(seed) {
  const next = xoshiro128(spread(seed));
  return () => ((next() >>> 5) * 0x4000000 + (next() >>> 6)) / 0x20000000000000;
}
