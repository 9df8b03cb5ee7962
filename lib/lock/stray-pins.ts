import type { ExactKeys } from '../engine/contract/exact-keys.js';

/** So many of a generation that has ended become strays at a time. */
const LEAVING = 64;

/**
 * The stripes that a thread has pinned and that are not in its cache: strays, of which there may be a few, and what has just
 * left the cache, which becomes strays a few at a time, so that no call pays for all. See `ExactKeyIndex`.
 */
export class StrayPins {
  /** Some twice. */
  #strays: Int32Array;
  #count = 0;
  readonly #few: number;
  #most: number;
  #leaving = new Int32Array(0);
  #leavingCount = 0;

  /** With `few` strays, those that are not in use are to be unpinned. */
  constructor(few: number) {
    this.#few = few;
    this.#most = few;
    this.#strays = new Int32Array(2 * few);
  }

  /** Whether it is time to {@link unpin}, or so many strays past it. */
  isFull(past: number): boolean {
    return this.#count >= this.#most + past;
  }

  get anyLeaving(): boolean {
    return this.#leavingCount > 0;
  }

  add(stripe: number): void {
    if (this.#count === this.#strays.length) this.#reserve(2 * this.#count);
    this.#strays[this.#count++] = stripe;
  }

  /** Empties a generation of the cache. */
  end(generation: Map<unknown, number>): void {
    const count = this.#leavingCount + generation.size;
    if (count > this.#leaving.length) {
      const leaving = new Int32Array(count);
      leaving.set(this.#leaving);
      this.#leaving = leaving;
    }
    const leaving = this.#leaving;
    let at = this.#leavingCount;
    for (const stripe of generation.values()) leaving[at++] = stripe;
    // From here on nothing fails. After a stack overflow they are still in the generation, and there alone.
    generation.clear();
    this.#leavingCount = count;
  }

  /** Some of what has left the cache become strays. */
  leave(most = LEAVING): void {
    const count = Math.min(this.#leavingCount, most);
    this.#reserve(this.#count + count);
    const strays = this.#strays;
    const leaving = this.#leaving;
    for (let i = 0; i < count; i++) strays[this.#count++] = leaving[--this.#leavingCount]!;
  }

  /** Those in use stay strays, and are looked at again when there are a quarter more: so each costs constant time. */
  unpin(names: ExactKeys): void {
    const kept = names.unpin(this.#strays, this.#count);
    this.#count = kept;
    this.#most = Math.max(this.#few, kept + (kept >> 2) + 1);
  }

  #reserve(count: number): void {
    if (count <= this.#strays.length) return;
    const strays = new Int32Array(count);
    strays.set(this.#strays);
    this.#strays = strays;
  }
}
