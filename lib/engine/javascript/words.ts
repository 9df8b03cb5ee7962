import { STRIPE_SHIFT, wordIndex } from '../contract/layout.js';
import { HOLDER_MASK, QUEUED } from '../contract/lock-word.js';
import {
  admits,
  firstWord,
  hasPermits,
  modeOfWord,
  mostHolds,
  namesHolder,
  type Mode,
} from '../contract/mode.js';

/** Why an acquisition may take a stripe that others wait for, too: it looks for itself, was called, or was handed the stripe. */
export const LOOKS = 0;
export const CALLED = 1;
export const HANDED = 2;
export type Cause = typeof LOOKS | typeof CALLED | typeof HANDED;

/**
 * The words of a lock's stripes as one thread changes them, and its holds that words only count. A word is 0, or says how
 * its stripe is held (`lock-word.ts`), plus QUEUED if somebody waits, or did until a moment ago.
 *
 * A stripe is taken and given back by one compare-and-swap. From that to the note of the hold no function is called, so that
 * neither a stack overflow nor the end of a `vm` timeout comes between the two.
 */
export class Words {
  /** All of the lock's memory. */
  readonly memory: Int32Array;
  readonly slot: number;
  readonly limit: number;
  /** See `LockTable.shares`. */
  shares: Int32Array | undefined = undefined;

  constructor(memory: Int32Array, slot: number, limit: number) {
    this.memory = memory;
    this.slot = slot;
    this.limit = limit;
  }

  openShares(): Int32Array {
    return (this.shares ??= new Int32Array((this.memory.length - wordIndex(0)) >> STRIPE_SHIFT));
  }

  load(stripe: number): number {
    return Atomics.load(this.memory, wordIndex(stripe));
  }

  exchange(stripe: number, expected: number, replacement: number): boolean {
    return Atomics.compareExchange(this.memory, wordIndex(stripe), expected, replacement) === expected;
  }

  isHeld(stripe: number): boolean {
    return (this.load(stripe) & HOLDER_MASK) !== 0;
  }

  /** Held exclusively by this thread. */
  isOwn(stripe: number): boolean {
    const word = this.load(stripe);
    return namesHolder(word) && (word & HOLDER_MASK) === this.slot;
  }

  /** Whether a stripe with this word has room for one more, whoever waits for it. */
  hasRoom(word: number, mode: Mode): boolean {
    const held = word & ~QUEUED;
    return held === 0 || admits(held, mode, mostHolds(this.limit));
  }

  /** Takes a stripe that {@link hasRoom}, and sets the flags `queued`. False: its word has changed. */
  take(stripe: number, word: number, mode: Mode, queued: number): boolean {
    const shares = mode.counted ? this.openShares() : undefined;
    const next = (word & ~QUEUED) === 0 ? word | firstWord(mode, this.slot) : word + 1;
    if (Atomics.compareExchange(this.memory, wordIndex(stripe), word, next | queued) !== word) return false;
    if (shares !== undefined) shares[stripe]!++;
    return true;
  }

  /**
   * Gives back one hold; QUEUED stays. True: somebody may wait for that. Does nothing where the stripe is not held so, which
   * is where somebody scribbled on its word.
   */
  giveBack(stripe: number, mode: Mode): boolean {
    const index = wordIndex(stripe);
    const shares = mode.counted ? this.openShares() : undefined;
    for (;;) {
      const word = Atomics.load(this.memory, index);
      const held = word & ~QUEUED;
      if (
        shares === undefined
          ? held !== this.slot
          : (held & ~HOLDER_MASK) !== mode.joins || shares[stripe]! <= 0
      )
        return false;
      const last = shares === undefined || (word & HOLDER_MASK) === 1;
      const next = last ? word & QUEUED : word - 1;
      if (Atomics.compareExchange(this.memory, index, word, next) !== word) continue;
      if (shares !== undefined) shares[stripe]!--;
      return (word & QUEUED) !== 0 && (last || hasPermits(this.limit));
    }
  }

  /** Ids of the threads that hold a stripe, as far as known. */
  holders(stripe: number): number[] {
    const word = this.load(stripe);
    if (modeOfWord(word) === undefined) return [];
    if (namesHolder(word)) return [(word & HOLDER_MASK) - 1];
    return (this.shares?.[stripe] ?? 0) > 0 ? [this.slot - 1] : [];
  }
}
