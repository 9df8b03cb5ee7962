import { hrtime } from 'node:process';
import { getEnvironmentData, setEnvironmentData, threadId } from 'node:worker_threads';
import {
  bufferOfWasmMemory,
  compareExchangeIn,
  createWasmMemory,
  type CompareExchange,
  type WasmMemory,
} from '../../common/wasm-memory.js';
import { byteLengthFor } from '../contract/layout.js';
import type { Addon } from './addon.js';

/** The size of an arena in bytes: room for 254 locks of 1024 stripes. Only the used part takes up memory. */
const SIZE = 16 * 2 ** 20;
/** The size of a cache line in bytes. Each table starts at a multiple of this size. */
const LINE = 64;
/**
 * The first cache line of an arena is its header. The following constants are indexes of 32-bit integers in
 * the header. The integer at `USED_INDEX` is the number of used bytes.
 */
const USED_INDEX = 0;
/** The index of a mark that distinguishes an arena from other memory of this size. */
const MARK_INDEX = 1;
const MARK = 0x6172_656e;
/** The index of two integers that identify the arena within the process. */
const ID_INDEX = 2;
/** The key of the arena in a thread's environment data. Workers inherit this data. */
const INHERITED = 'stripelock: arena 1';

/**
 * Memory for the tables of locks. WebAssembly can access this memory. The compare-and-swap of WebAssembly is
 * faster than `Atomics.compareExchange`, because V8 compiles it to one instruction instead of a function call
 * (see docs/performance.md).
 *
 * One arena serves all locks and, if possible, all threads of a process, because V8 inlines calls into only
 * one WebAssembly instance. With several instances, a call would cost as much as `Atomics.compareExchange`.
 *
 * The arena cannot detect when the last handle of a lock is gone, because a handle may be in a message that
 * was not received yet. So the memory of a lock is reused only if the lock's handle was never read: see S1 in
 * `native/core/base/free_spans.h`. When the arena is full, each new lock gets separate memory, which is
 * garbage-collected.
 */
export class Arena {
  readonly memory: WasmMemory;
  readonly buffer: SharedArrayBuffer;
  /** The whole memory as 32-bit integers. */
  readonly words: Int32Array;
  readonly compareExchange: CompareExchange;
  /** The arena's id, as two unsigned integers. */
  readonly id: readonly [low: number, high: number];

  private constructor(memory: WasmMemory, buffer: SharedArrayBuffer, compareExchange: CompareExchange) {
    this.memory = memory;
    this.buffer = buffer;
    this.words = new Int32Array(buffer);
    this.compareExchange = compareExchange;
    this.id = [this.words[ID_INDEX]! >>> 0, this.words[ID_INDEX + 1]! >>> 0];
  }

  /**
   * Creates an arena. Returns undefined if WebAssembly is unavailable, or if V8 cannot reserve the address
   * space.
   */
  static create(): Arena | undefined {
    const memory = createWasmMemory(SIZE);
    if (memory === undefined) return undefined;
    const words = new Int32Array(memory.buffer);
    words[USED_INDEX] = LINE;
    words[MARK_INDEX] = MARK;
    // The id is unique in the process. It consists of the thread's number and the time in nanoseconds. A
    // thread creates one arena for each copy of the addon, and never two arenas within a nanosecond.
    words[ID_INDEX] = threadId + 1;
    words[ID_INDEX + 1] = Number(BigInt.asIntN(32, hrtime.bigint()));
    return Arena.over(memory);
  }

  /**
   * Opens an arena that this or another thread has created. Returns undefined if `memory` is not an arena, or
   * if this thread cannot use it.
   */
  static over(memory: unknown): Arena | undefined {
    const buffer = bufferOfWasmMemory(memory);
    if (buffer?.byteLength !== SIZE || new Int32Array(buffer)[MARK_INDEX] !== MARK) return undefined;
    const compareExchange = compareExchangeIn(memory as WasmMemory);
    return compareExchange && new Arena(memory as WasmMemory, buffer, compareExchange);
  }

  /** Whether a table with that many stripes fits at this offset. */
  hasRoom(offset: number, stripes: number): boolean {
    return offset >= LINE && offset % LINE === 0 && offset <= SIZE - byteLengthFor(stripes);
  }

  /** Zeroes the memory of a table that is no longer used. */
  clear(offset: number, stripes: number): void {
    const { BYTES_PER_ELEMENT } = Int32Array;
    const from = offset / BYTES_PER_ELEMENT;
    this.words.fill(0, from, from + byteLengthFor(stripes) / BYTES_PER_ELEMENT);
  }

  /**
   * Allocates zeroed memory for a table, and returns its offset in bytes. Returns undefined if the arena is
   * full. Other threads may allocate at the same time. If this thread dies before it uses the memory, the
   * memory stays unused.
   */
  allocate(stripes: number): number | undefined {
    const { words } = this;
    const bytes = byteLengthFor(stripes);
    for (;;) {
      const used = Atomics.load(words, USED_INDEX);
      // The number of used bytes is checked, because any code with a handle can overwrite it.
      if (used < LINE || used > SIZE - bytes || used % LINE !== 0) return undefined;
      if (Atomics.compareExchange(words, USED_INDEX, used, used + bytes) === used) return used;
    }
  }
}

/**
 * Chooses the only arena in which a thread uses WebAssembly's compare-and-swap (see {@link Arena}): the arena
 * of the first lock that the thread created or opened. For a lock in another arena, the thread uses
 * `Atomics`. Usually all threads use the same arena, because workers inherit the arena and handles contain
 * it.
 */
export class ThreadArena {
  readonly #addon: Addon;
  /** The chosen arena; null if none can be created; undefined before the first lock. */
  #arena: Arena | null | undefined = undefined;

  constructor(addon: Addon) {
    this.#addon = addon;
  }

  /** The arena for a new lock; undefined if none can be created. */
  get(): Arena | undefined {
    if (this.#arena === undefined) {
      this.#adopt(Arena.over(getEnvironmentData(INHERITED)) ?? Arena.create());
      this.#arena ??= null;
    }
    return this.#arena ?? undefined;
  }

  /**
   * Returns the compare-and-swap for the memory of a lock, or undefined if the thread must use `Atomics` for
   * that memory. `words` must cover the whole memory.
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
