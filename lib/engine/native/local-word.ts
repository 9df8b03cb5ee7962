import { wordIndex } from '../contract/layout.js';
import { HOLDER_MASK, LOCAL, SHARED } from '../contract/lock-word.js';

/** All of a word but its flags. */
const HOLDER = SHARED | HOLDER_MASK;

/** Whether the thread with that slot holds the stripe alone. */
export function isHeldBy(word: number, slot: number): boolean {
  return (word & HOLDER) === slot;
}

/**
 * For the thread that holds the stripe: nobody else can change that. Other flags may be older, so whoever gives the stripe back
 * compares them again. V8 does not inline `Atomics.load`.
 */
export function readWord(words: Int32Array, stripe: number): number {
  return words[wordIndex(stripe)]!;
}

/** Sets LOCAL. False: the thread does not hold the stripe alone. */
export function setLocal(words: Int32Array, slot: number, stripe: number): boolean {
  const index = wordIndex(stripe);
  for (let word = Atomics.load(words, index); isHeldBy(word, slot);) {
    const seen = Atomics.compareExchange(words, index, word, word | LOCAL);
    if (seen === word) return true;
    word = seen;
  }
  return false;
}

/** Gives a stripe back that has LOCAL, and that no other thread wants. False: one does, or it is not held so. */
export function freeLocal(words: Int32Array, slot: number, stripe: number): boolean {
  const held = slot | LOCAL;
  return Atomics.compareExchange(words, wordIndex(stripe), held, 0) === held;
}
