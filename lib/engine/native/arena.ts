import {
  bufferOfWasmMemory,
  compareExchangeIn,
  createWasmMemory,
  type CompareExchange,
  type WasmMemory,
} from '../../common/wasm-memory.js';
import { byteLengthFor } from '../contract/layout.js';

/** Bytes: room for 255 locks of 1024 stripes. Only what is used of it takes memory. */
const SIZE = 16 * 2 ** 20;
/** Bytes; what is allocated starts at multiples of it. */
const LINE = 64;
/** Where the number of bytes in use stands, in 32-bit integers. The first line is the arena's own. */
const USED_INDEX = 0;
/** What is in the arena's line besides, so that nobody else's memory of this size is taken for one. */
const MARK_INDEX = 1;
const MARK = 0x6172_656e;

/**
 * Memory for the tables of locks on which WebAssembly can work, since V8 compiles its compare-and-swap to one
 * instruction, where that of `Atomics` is a call (see docs/performance.md). One for all locks and, as far as it can be
 * had, all threads of a process: V8 compiles the call to the function of one instance into the code of its caller,
 * while calls to those of several would cost as much as `Atomics`.
 *
 * What is allocated is never freed. A handle may lie in a message that nobody has received yet, so that nobody knows
 * when the last is gone. When the arena is full, locks get memory of their own, and the garbage collector frees that.
 */
export class Arena {
  readonly memory: WasmMemory;
  readonly buffer: SharedArrayBuffer;
  /** All of it. */
  readonly words: Int32Array;
  readonly compareExchange: CompareExchange;

  private constructor(memory: WasmMemory, buffer: SharedArrayBuffer, compareExchange: CompareExchange) {
    this.memory = memory;
    this.buffer = buffer;
    this.words = new Int32Array(buffer);
    this.compareExchange = compareExchange;
  }

  /** Undefined where WebAssembly is not to be had, or not the addresses that V8 reserves for it. */
  static create(): Arena | undefined {
    const memory = createWasmMemory(SIZE);
    if (memory === undefined) return undefined;
    const words = new Int32Array(memory.buffer);
    words[USED_INDEX] = LINE;
    words[MARK_INDEX] = MARK;
    return Arena.over(memory);
  }

  /** An arena that another thread may have made. Undefined for what is none, or where it cannot be used. */
  static over(memory: unknown): Arena | undefined {
    const buffer = bufferOfWasmMemory(memory);
    if (buffer?.byteLength !== SIZE || new Int32Array(buffer)[MARK_INDEX] !== MARK) return undefined;
    const compareExchange = compareExchangeIn(memory as WasmMemory);
    return compareExchange && new Arena(memory as WasmMemory, buffer, compareExchange);
  }

  /**
   * Zeroed memory for a table: its offset in bytes. Undefined if there is no room for it. Other threads may allocate
   * at the same time; what a thread has allocated when it dies stays unused.
   */
  allocate(stripes: number): number | undefined {
    const { words } = this;
    const bytes = byteLengthFor(stripes);
    for (;;) {
      const used = Atomics.load(words, USED_INDEX);
      // Anybody who has a handle can write there.
      if (used < LINE || used > SIZE - bytes || used % LINE !== 0) return undefined;
      if (Atomics.compareExchange(words, USED_INDEX, used, used + bytes) === used) return used;
    }
  }
}
