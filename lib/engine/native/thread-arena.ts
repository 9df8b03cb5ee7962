import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import type { CompareExchange } from '../../common/wasm-memory.js';
import type { Addon } from './addon.js';
import { Arena } from './arena.js';

/** Workers inherit their parent's environment data, and so its arena. */
const INHERITED = 'stripelock: arena 1';

/**
 * The one arena whose function a thread uses (see {@link Arena}): that of the first lock that it made or opened. It is
 * usually the same in all threads, since workers inherit it, and handles bring it. For a lock in another arena the thread
 * uses `Atomics`.
 */
export class ThreadArena {
  readonly #addon: Addon;
  /** Null if none is possible. Undefined before the first lock. */
  #arena: Arena | null | undefined = undefined;

  constructor(addon: Addon) {
    this.#addon = addon;
  }

  /** The arena for a new lock, if one is possible. */
  get(): Arena | undefined {
    if (this.#arena === undefined) {
      this.#adopt(Arena.over(getEnvironmentData(INHERITED)) ?? Arena.create());
      this.#arena ??= null;
    }
    return this.#arena ?? undefined;
  }

  /**
   * The function for the memory that a lock is in, or undefined if only `Atomics` can work on it. `words` are all of
   * the memory.
   */
  compareExchangeIn(memory: object | undefined, words: Int32Array): CompareExchange | undefined {
    if (memory === undefined) return undefined;
    if (this.#arena === undefined) this.#adopt(Arena.over(memory));
    const arena = this.#arena;
    if (!arena) return undefined;
    return this.#addon.sameMemory(arena.words, words) ? arena.compareExchange : undefined;
  }

  #adopt(arena: Arena | undefined): void {
    if (arena === undefined) return;
    this.#arena = arena;
    setEnvironmentData(INHERITED, arena.memory);
  }
}
