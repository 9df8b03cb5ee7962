import { STRIPE_SHIFT, wordIndex } from '../contract/layout.js';
import { ABANDONED, HOLDER_MASK, QUEUED, SHARED } from '../contract/lock-word.js';
import { admits, firstWord, namesHolder, type Mode } from '../contract/mode.js';

/** Held by readers, or just left by the last of them. */
export function isShared(word: number): boolean {
  return (word & (SHARED | ABANDONED)) === SHARED;
}

/**
 * The words of a lock's stripes as one thread changes them, and its shared holds. What a mode admits is asked of the table
 * in `mode.ts`. Who waits for a stripe is not known here: see `lanes.ts`, and for how both work together `stripes.ts`.
 *
 * Keeps I1 and I8 of `stripes.ts`: a stripe is taken by compare-and-swap alone, and noted right after that.
 */
export class StripeWords {
  /** All of the lock's memory. */
  readonly memory: Int32Array;
  readonly slot: number;
  /** See `LockTable.shares`. */
  shares: Int32Array | undefined = undefined;

  constructor(memory: Int32Array, slot: number) {
    this.memory = memory;
    this.slot = slot;
  }

  openShares(): Int32Array {
    this.shares ??= new Int32Array((this.memory.length - wordIndex(0)) >> STRIPE_SHIFT);
    return this.shares;
  }

  /** Shared holds of this thread. */
  sharesOf(stripe: number): number {
    return this.shares?.[stripe] ?? 0;
  }

  load(stripe: number): number {
    return Atomics.load(this.memory, wordIndex(stripe));
  }

  /** Held exclusively by this thread. */
  isOwn(stripe: number): boolean {
    return this.#namesThisThread(this.load(stripe));
  }

  /** Held, and known to its holders to be waited for. */
  isAwaited(stripe: number): boolean {
    const word = this.load(stripe);
    return (word & QUEUED) !== 0 && (word & HOLDER_MASK) !== 0;
  }

  /** Whether a word says that its stripe is held in this mode: exclusively, by this thread. */
  isHeldIn(word: number, mode: Mode): boolean {
    if (!mode.counted) return (word & ~(QUEUED | ABANDONED)) === firstWord(mode, this.slot);
    return (word & ~(QUEUED | HOLDER_MASK)) === mode.joins && (word & HOLDER_MASK) !== 0;
  }

  /** Whether a stripe with this word can be taken, whoever waits for it. */
  canTake(word: number, mode: Mode): boolean {
    return word === 0 || admits(word & ~QUEUED, mode);
  }

  /**
   * Takes a stripe that is free, reserved or held so that {@link canTake}, and sets the flags `queued`. False: its word
   * has changed.
   */
  take(stripe: number, word: number, mode: Mode, queued: number): boolean {
    const shares = mode.counted ? this.openShares() : undefined;
    const free = (word & ~QUEUED) === 0;
    const next = (free ? (word & QUEUED) | firstWord(mode, this.slot) : word + 1) | queued;
    if (Atomics.compareExchange(this.memory, wordIndex(stripe), word, next) !== word) return false;
    // Keeps I8, with those who call this.
    if (shares !== undefined) shares[stripe]!++;
    return true;
  }

  /** Takes a stripe for an acquisition that has just come: not if others wait for it to become free. */
  arrive(stripe: number, mode: Mode): boolean {
    for (;;) {
      const word = this.load(stripe);
      if (word !== 0 && !admits(word, mode)) return false;
      if (this.take(stripe, word, mode, 0)) return true;
    }
  }

  /**
   * Changes who holds a stripe, within this thread: from the last holder to one that waited. False: not the last.
   */
  handOver(stripe: number, mode: Mode, nextMode: Mode): boolean {
    const index = wordIndex(stripe);
    const shares = mode.counted || nextMode.counted ? this.openShares() : undefined;
    if (mode.counted && shares![stripe]! <= 0) return false;
    const held = firstWord(mode, this.slot);
    const next = firstWord(nextMode, this.slot);
    for (;;) {
      const word = Atomics.load(this.memory, index);
      if ((word & ~QUEUED) !== held) return false;
      if (Atomics.compareExchange(this.memory, index, word, next | QUEUED) !== word) continue;
      if (mode.counted) shares![stripe]!--;
      if (nextMode.counted) shares![stripe]!++;
      return true;
    }
  }

  /** Ends a reservation: the stripe is free. */
  unreserve(stripe: number): void {
    Atomics.compareExchange(this.memory, wordIndex(stripe), QUEUED, 0);
  }

  /** Clears QUEUED in a word that readers hold. False: it was not set, or they have all left. */
  clearQueued(stripe: number): boolean {
    const index = wordIndex(stripe);
    for (;;) {
      const word = Atomics.load(this.memory, index);
      if ((word & QUEUED) === 0 || !isShared(word)) return false;
      if (Atomics.compareExchange(this.memory, index, word, word & ~QUEUED) === word) return true;
    }
  }

  #namesThisThread(word: number): boolean {
    return namesHolder(word) && (word & HOLDER_MASK) === this.slot;
  }
}
