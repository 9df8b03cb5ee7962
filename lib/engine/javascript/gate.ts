import { Deadlines } from '../../common/deadlines.js';
import type { GateTable } from '../contract/lease-table.js';

/**
 * The highest token that a gate has admitted for any key. This object is kept when the gate is
 * garbage-collected.
 */
export interface Highest {
  token: bigint;
}

interface Entry {
  readonly key: string;
  /** The key's highest admitted token. {@link Deadlines} requires the name `deadline`. */
  deadline: bigint;
  place: number;
}

/**
 * A fencing gate with the rules of `native/core/leases/fencing_gate.h`, but with a single shard. The floor is
 * the lowest token that the gate admits for an unknown key. When the gate is full, it forgets the key with
 * the lowest token, and raises the floor to that token. The invariants G1 and G2 of that file also hold here.
 */
export class JavaScriptGate implements GateTable {
  readonly number: number;
  readonly capacity: number;
  readonly #entries = new Map<string, Entry>();
  /** The entries, lowest token first. */
  readonly #byToken = new Deadlines<Entry>();
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
    const newest = entry === undefined ? this.#floor : entry.deadline;
    if (token < newest) return newest;
    // The highest token of all keys is raised first. If a later line throws, the gate may later refuse valid
    // tokens, but it never admits an outdated token.
    if (token > this.#highest.token) this.#highest.token = token;
    if (entry === undefined) {
      if (this.#entries.size >= this.capacity) this.#forgetLowest();
      const added = { key, deadline: token, place: -1 };
      this.#byToken.add(added);
      this.#entries.set(key, added);
    } else if (token > entry.deadline) {
      this.#byToken.remove(entry);
      entry.deadline = token; // preserves G1
      this.#byToken.add(entry);
    }
    return undefined;
  }

  #forgetLowest(): void {
    const lowest = this.#byToken.first!;
    if (lowest.deadline > this.#floor) this.#floor = lowest.deadline; // preserves G2
    this.#byToken.remove(lowest);
    this.#entries.delete(lowest.key);
  }
}
