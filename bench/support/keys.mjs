// Which keys a thread asks for, drawn before anything is measured.

import { randomFrom } from '../../test/workers/random.mjs';
import { zipfian } from './zipf.mjs';

/** A power of two, so that a thread can cycle through its draws with a mask. */
export const DRAWS = 4096;

export const keyNamed = (/** @type {number} */ index) => `account:${index * 7919}`;

/**
 * DRAWS lists of different key indexes each.
 *
 * @param {object} choice
 * @param {number} choice.keys How many keys there are.
 * @param {'uniform' | 'zipf'} choice.distribution Zipf with YCSB's constant, 0.99: index 0 is the busiest.
 * @param {number} choice.keysAtOnce
 * @param {number} seed
 * @returns {number[][]}
 */
export function drawKeys({ keys, distribution, keysAtOnce }, seed) {
  const random = randomFrom(seed);
  const draw =
    distribution === 'zipf' && keys > 1 ? zipfian(keys, random) : () => Math.floor(random() * keys);
  return Array.from({ length: DRAWS }, () => {
    const drawn = new Set();
    while (drawn.size < keysAtOnce) drawn.add(draw());
    return [...drawn];
  });
}

/**
 * DRAWS booleans, true with the given probability.
 *
 * @param {number} sharedPart
 * @param {number} seed
 */
export function drawModes(sharedPart, seed) {
  const random = randomFrom(seed);
  return Array.from({ length: DRAWS }, () => random() < sharedPart);
}
