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

/** Bytes: room for 255 locks of 1024 stripes. Only the used part takes memory. */
const SIZE = 16 * 2 ** 20;
/** Bytes. Each table starts at a multiple of it. */
const LINE = 64;
/** The index of the number of bytes in use, in 32-bit integers. The first line is the arena's own. */
const USED_INDEX = 0;
/** The index of a mark, so that other memory of this size does not count as an arena. */
const MARK_INDEX = 1;
const MARK = 0x6172_656e;
/** The index of two integers that no other arena of the process has. */
const ID_INDEX = 2;
/** Workers inherit their parent's environment data, and so its arena. */
const INHERITED = 'stripelock: arena 1';

/**
 * Memory for the tables of locks on which WebAssembly can work: V8 compiles its compare-and-swap to one instruction,
 * but calls a function for that of `Atomics` (see docs/performance.md). There is one arena for all locks and, if
 * possible, for all threads of a process: V8 compiles the call of one instance's function into the code of its caller,
 * while calls into several instances would cost as much as `Atomics`.
 *
 * A handle may lie in a message that nobody has received yet, so nobody knows when the last one is gone. So the memory of a
 * lock is used again only if its handle was never read: see S1 in `native/core/free_spans.h`. When the arena is full, locks
 * get memory of their own, and the garbage collector frees that.
 */
export class Arena {
  readonly memory: WasmMemory;
  readonly buffer: SharedArrayBuffer;
  /** All of the memory. */
  readonly words: Int32Array;
  readonly compareExchange: CompareExchange;
  /** Its number, as two unsigned integers. */
  readonly id: readonly [low: number, high: number];

  private constructor(memory: WasmMemory, buffer: SharedArrayBuffer, compareExchange: CompareExchange) {
    this.memory = memory;
    this.buffer = buffer;
    this.words = new Int32Array(buffer);
    this.compareExchange = compareExchange;
    this.id = [this.words[ID_INDEX]! >>> 0, this.words[ID_INDEX + 1]! >>> 0];
  }

  /** Undefined if WebAssembly, or the address space that V8 reserves for it, is unavailable. */
  static create(): Arena | undefined {
    const memory = createWasmMemory(SIZE);
    if (memory === undefined) return undefined;
    const words = new Int32Array(memory.buffer);
    words[USED_INDEX] = LINE;
    words[MARK_INDEX] = MARK;
    // A thread has one arena for each copy of the addon, and those are not made within a nanosecond.
    words[ID_INDEX] = threadId + 1;
    words[ID_INDEX + 1] = Number(BigInt.asIntN(32, hrtime.bigint()));
    return Arena.over(memory);
  }

  /** An arena that another thread may have made. Undefined for anything else, or if this thread cannot use it. */
  static over(memory: unknown): Arena | undefined {
    const buffer = bufferOfWasmMemory(memory);
    if (buffer?.byteLength !== SIZE || new Int32Array(buffer)[MARK_INDEX] !== MARK) return undefined;
    const compareExchange = compareExchangeIn(memory as WasmMemory);
    return compareExchange && new Arena(memory as WasmMemory, buffer, compareExchange);
  }

  /** Whether a table with that many stripes can be at this offset. */
  hasRoom(offset: number, stripes: number): boolean {
    return offset >= LINE && offset % LINE === 0 && offset <= SIZE - byteLengthFor(stripes);
  }

  /** Zeroes the memory of a table that nobody uses. */
  clear(offset: number, stripes: number): void {
    const { BYTES_PER_ELEMENT } = Int32Array;
    const from = offset / BYTES_PER_ELEMENT;
    this.words.fill(0, from, from + byteLengthFor(stripes) / BYTES_PER_ELEMENT);
  }

  /**
   * Allocates zeroed memory for a table and returns its offset in bytes. Undefined if there is no room for it. Other
   * threads may allocate at the same time. If a thread dies afterwards, the memory stays unused.
   */
  allocate(stripes: number): number | undefined {
    const { words } = this;
    const bytes = byteLengthFor(stripes);
    for (;;) {
      const used = Atomics.load(words, USED_INDEX);
      // Anybody who has a handle can write to this number.
      if (used < LINE || used > SIZE - bytes || used % LINE !== 0) return undefined;
      if (Atomics.compareExchange(words, USED_INDEX, used, used + bytes) === used) return used;
    }
  }
}

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
