// The memory that the threads of one measurement share, beside the lock.

/** Bytes in a cache line, or in two where the processor fetches pairs of lines. */
const LINE = 128;

export const PREPARE = 0;
export const WARM_UP = 1;
export const MEASURE = 2;
export const STOP = 3;

/** Control words, in Int32s. */
export const PHASE = 0;

/**
 * The phase that all are in, how much each thread has done, and for each key what its lock protects: two numbers that
 * are equal whenever nobody holds the key, changed by plain reads and writes. Each on lines of its own.
 */
export class Arena {
  /**
   * @param {number} threads
   * @param {number} keys
   * @param {SharedArrayBuffer} [memory] Of another thread's arena, for as many threads and keys.
   */
  constructor(threads, keys, memory) {
    const doneOffset = LINE;
    const rowOffset = doneOffset + threads * LINE;
    this.memory = memory ?? new SharedArrayBuffer(rowOffset + keys * LINE);
    this.control = new Int32Array(this.memory, 0, LINE / 4);
    this.done = new Float64Array(this.memory, doneOffset, (threads * LINE) / 8);
    this.rows = new Float64Array(this.memory, rowOffset, (keys * LINE) / 8);
  }

  /**
   * To be called under the key's lock.
   *
   * @param {number} key
   */
  write(key) {
    this.beginWrite(key);
    this.endWrite(key);
  }

  /**
   * Leaves the key's numbers unequal until {@link endWrite}; both under its lock.
   *
   * @param {number} key
   */
  beginWrite(key) {
    this.rows[key * (LINE / 8)]++;
  }

  /** @param {number} key */
  endWrite(key) {
    this.rows[key * (LINE / 8) + 1]++;
  }

  /**
   * To be called under the key's lock, shared or exclusive. True if no writer is half done.
   *
   * @param {number} key
   */
  consistent(key) {
    const at = key * (LINE / 8);
    return this.rows[at] === this.rows[at + 1];
  }

  /**
   * An operation of a thread is over.
   *
   * @param {number} thread
   */
  count(thread) {
    this.done[thread * (LINE / 8)]++;
  }

  /** Operations done so far, by thread. */
  counts() {
    const { done } = this;
    return Array.from({ length: (done.length * 8) / LINE }, (_, thread) => done[(thread * LINE) / 8]);
  }

  /** Writes that were not lost, over all keys. NaN if a write was begun and not ended, or if the two numbers differ. */
  get written() {
    let sum = 0;
    for (let at = 0; at < this.rows.length; at += LINE / 8) {
      if (this.rows[at] !== this.rows[at + 1]) return NaN;
      sum += this.rows[at];
    }
    return sum;
  }

  get phase() {
    return Atomics.load(this.control, PHASE);
  }

  /** @param {number} phase */
  enter(phase) {
    Atomics.store(this.control, PHASE, phase);
    Atomics.notify(this.control, PHASE);
  }
}
