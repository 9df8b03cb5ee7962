import type { GateTable } from '../contract/lease-table.js';

/** The highest token that a gate has admitted for any key. It outlives those who use the gate. */
export interface Highest {
  token: bigint;
}

interface Entry {
  readonly key: string;
  token: bigint;
  /** Its index in the heap. */
  place: number;
}

/**
 * The rule of `native/core/fencing_gate.h`, with one shard: a full gate forgets the key with its lowest token, and raises
 * its floor to that token. I1 and I2 there hold here, too, wherever a stack overflow ends a call.
 */
export class JavaScriptGate implements GateTable {
  readonly number: number;
  readonly capacity: number;
  readonly #entries = new Map<string, Entry>();
  /** A binary heap of the entries, the lowest token on top. */
  readonly #heap: Entry[] = [];
  readonly #highest: Highest;
  #floor: bigint;

  constructor(number: number, capacity: number, highest: Highest) {
    this.number = number;
    this.capacity = capacity;
    this.#highest = highest;
    this.#floor = highest.token;
  }

  get size(): number {
    return this.#entries.size;
  }

  admit(key: string, token: bigint): bigint | undefined {
    const entry = this.#entries.get(key);
    const newest = entry === undefined ? this.#floor : entry.token;
    if (token < newest) return newest;
    // First, as a refusal too many does no harm if a stack overflow ends the call.
    if (token > this.#highest.token) this.#highest.token = token;
    if (entry === undefined) {
      if (this.#entries.size >= this.capacity) this.#forgetLowest();
      this.#add(key, token);
    } else if (token > entry.token) {
      entry.token = token; // keeps I1
      this.#sink(entry);
    }
    return undefined;
  }

  #forgetLowest(): void {
    const lowest = this.#heap[0]!;
    if (lowest.token > this.#floor) this.#floor = lowest.token; // keeps I2
    this.#entries.delete(lowest.key);
    const last = this.#heap.pop()!;
    if (last === lowest) return;
    last.place = 0;
    this.#heap[0] = last;
    this.#sink(last);
  }

  #add(key: string, token: bigint): void {
    const heap = this.#heap;
    const entry = { key, token, place: heap.length };
    heap.push(entry);
    this.#entries.set(key, entry);
    while (entry.place > 0) {
      const parent = heap[(entry.place - 1) >> 1]!;
      if (parent.token <= token) break;
      swap(heap, entry, parent);
    }
  }

  /** Moves an entry down whose token may have become higher than those below it. */
  #sink(entry: Entry): void {
    const heap = this.#heap;
    for (let below = 2 * entry.place + 1; below < heap.length; below = 2 * entry.place + 1) {
      if (below + 1 < heap.length && heap[below + 1]!.token < heap[below]!.token) below++;
      const child = heap[below]!;
      if (entry.token <= child.token) break;
      swap(heap, entry, child);
    }
  }
}

function swap(heap: Entry[], one: Entry, other: Entry): void {
  const { place } = one;
  heap[other.place] = one;
  one.place = other.place;
  heap[place] = other;
  other.place = place;
}
