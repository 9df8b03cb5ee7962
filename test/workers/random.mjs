/**
 * Numbers from 0 up to, but not including, 1. The same seed gives the same numbers, in every thread. mulberry32 (Tommy
 * Ettinger, public domain): small, and good enough to choose what a test does next.
 *
 * @param {number} seed
 * @returns {() => number}
 */
export function randomFrom(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b_79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

/**
 * An integer from 0 up to, but not including, the limit.
 *
 * @param {() => number} random
 * @param {number} limit
 */
export function below(random, limit) {
  return Math.floor(random() * limit);
}
