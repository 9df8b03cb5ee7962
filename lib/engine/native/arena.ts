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

/** Bytes: room for 255 locks of 1024 stripes. Only the used part consumes memory. */
const SIZE = 16 * 2 ** 20;
/** Bytes. Each table starts at a multiple of this. */
const LINE = 64;
/** The index of the number of used bytes, in 32-bit integers. The first line is the arena's header. */
const USED_INDEX = 0;
/** The index of a mark that distinguishes arenas from other memory of this size. */
const MARK_INDEX = 1;
const MARK = 0x6172_656e;
/** The index of two integers that identify the arena within the process. */
const ID_INDEX = 2;
/** Workers inherit their parent's environment data, and so its arena. */
const INHERITED = 'stripelock: arena 1';

/**
 * Memory for the tables of locks that WebAssembly can access. V8 compiles WebAssembly's compare-and-swap to one instruction,
 * but calls a function for `Atomics.compareExchange` (see docs/performance.md). One arena serves all locks and, if possible,
 * all threads of a process. V8 inlines calls into a single WebAssembly instance, while calls into several instances would cost
 * as much as `Atomics`.
 *
 * The end of the last handle cannot be detected, because a handle may be in a message that was not received yet. So the memory
 * of a lock is reused only if its handle was never read: see S1 in `native/core/base/free_spans.h`. When the arena is full,
 * locks get separate memory, which is garbage-collected.
 */
export class Arena {
  readonly memory: WasmMemory;
  readonly buffer: SharedArrayBuffer;
  /** The whole memory. */
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

  /** Undefined if WebAssembly is unavailable, or V8 cannot reserve the address space. */
  static create(): Arena | undefined {
    const memory = createWasmMemory(SIZE);
    if (memory === undefined) return undefined;
    const words = new Int32Array(memory.buffer);
    words[USED_INDEX] = LINE;
    words[MARK_INDEX] = MARK;
    // This is unique: a thread creates one arena for each copy of the addon, and never two of them within a nanosecond.
    words[ID_INDEX] = threadId + 1;
    words[ID_INDEX + 1] = Number(BigInt.asIntN(32, hrtime.bigint()));
    return Arena.over(memory);
  }

  /**
   * Opens an arena that another thread may have created. Undefined for any other value, or if this thread cannot use
   * it.
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

  /** Zeroes the memory of an unused table. */
  clear(offset: number, stripes: number): void {
    const { BYTES_PER_ELEMENT } = Int32Array;
    const from = offset / BYTES_PER_ELEMENT;
    this.words.fill(0, from, from + byteLengthFor(stripes) / BYTES_PER_ELEMENT);
  }

  /**
   * Allocates zeroed memory for a table and returns its offset in bytes. Undefined if the arena is full. Other threads
   * may allocate concurrently. If a thread dies after this, its memory stays unused.
   */
  allocate(stripes: number): number | undefined {
    const { words } = this;
    const bytes = byteLengthFor(stripes);
    for (;;) {
      const used = Atomics.load(words, USED_INDEX);
      // Any code with a handle can overwrite this number.
      if (used < LINE || used > SIZE - bytes || used % LINE !== 0) return undefined;
      if (Atomics.compareExchange(words, USED_INDEX, used, used + bytes) === used) return used;
    }
  }
}

/**
 * The arena whose compare-and-swap a thread uses (see {@link Arena}): the arena of the first lock that it created or opened.
 * Usually all threads use the same one, because workers inherit it and handles carry it. For locks in other arenas the thread
 * uses `Atomics`.
 */
export class ThreadArena {
  readonly #addon: Addon;
  /** Null if no arena can be created; undefined before the first lock. */
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
   * The compare-and-swap for the memory of a lock; undefined if only `Atomics` can access it. `words` must cover the whole
   * memory.
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
