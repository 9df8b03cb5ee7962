// Sends every acquisition and release of this thread through the addon: also as `node --import`. In separate memory
// a lock's fast path works by `Atomics.compareExchange`, and with this one it never finds a stripe free or held by it
// alone. What sets LOCAL belongs to the engine.
import { fillArena } from './full-arena.mjs';

const LOCAL = 0x1000_0000;
const QUEUED = 0x8000_0000 | 0;

/** How often the fast path failed for that reason. */
export let refused = 0;

fillArena();
const { compareExchange } = Atomics;
/**
 * Is called with words of 32 bits alone, though the type of what it replaces has an overload for bigint.
 *
 * @type {any}
 */
const refusing = (
  /** @type {Int32Array} */ words,
  /** @type {number} */ index,
  /** @type {number} */ expected,
  /** @type {number} */ replacement,
) => {
  if ((replacement & LOCAL) !== 0) return compareExchange(words, index, expected, replacement);
  refused++;
  return QUEUED;
};
Atomics.compareExchange = refusing;
