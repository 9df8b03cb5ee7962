import type { LeaseTable, LeaseWatch } from '../../engine/contract/lease-table.js';
import { Schedule, type Due } from '../time/schedule.js';

/** An acquisition that waits for its turn. */
export interface TurnWaiter {
  /** Tries once. Undefined when it is settled now, else the milliseconds after which to try again at the latest. */
  attempt(): number | undefined;
}

/**
 * The acquisitions of one thread that wait for keys of one table: first come, first served for each key. The threads
 * take turns among themselves in the table. A queue's head is tried when the key is released by any thread, when its
 * holder's time is over, and when the head has changed.
 */
export class Turns {
  readonly #table: LeaseTable;
  readonly #queues = new Map<string, Queue>();
  /** The waiters keep the process alive, not this. */
  readonly schedule = new Schedule(undefined, false);

  constructor(table: LeaseTable) {
    this.#table = table;
  }

  /** Whether somebody of this thread waits for the key, and so comes first. */
  isAwaited(key: string): boolean {
    return this.#queues.size > 0 && this.#queues.has(key);
  }

  /** Tries the waiter when its turn comes. Not before this returns, unless it is the only one. */
  wait(key: string, waiter: TurnWaiter): void {
    const queue = this.#queues.get(key);
    if (queue) {
      queue.waiters.add(waiter);
      return;
    }
    const added = new Queue(this, key);
    this.#queues.set(key, added);
    added.waiters.add(waiter);
    added.watch = this.#table.watch(key, () => added.serve());
    // It may have been released before it was watched.
    added.serve();
  }

  leave(key: string, waiter: TurnWaiter): void {
    const queue = this.#queues.get(key);
    if (!queue?.waiters.has(waiter)) return;
    const [head] = queue.waiters;
    queue.waiters.delete(waiter);
    if (head === waiter || queue.waiters.size === 0) queue.serve();
  }

  /** Tries the head for the key: a clock was set. */
  serve(key: string): void {
    this.#queues.get(key)?.serve();
  }

  drop(key: string): void {
    this.#queues.delete(key);
  }
}

class Queue implements Due {
  deadline = Infinity;
  place = -1;
  readonly waiters = new Set<TurnWaiter>();
  watch: LeaseWatch | undefined;
  readonly #turns: Turns;
  readonly #key: string;
  #serving = false;

  constructor(turns: Turns, key: string) {
    this.#turns = turns;
    this.#key = key;
  }

  run(): void {
    this.serve();
  }

  serve(): void {
    // Settling one may run a subscriber that makes another leave; the loop below sees that.
    if (this.#serving || this.watch === undefined) return;
    this.#serving = true;
    for (const waiter of this.waiters) {
      const retryAfter = waiter.attempt();
      if (retryAfter !== undefined) {
        if (!this.waiters.has(waiter)) continue;
        this.#turns.schedule.set(this, performance.now() + retryAfter);
        break;
      }
      this.waiters.delete(waiter);
    }
    this.#serving = false;
    if (this.waiters.size === 0) this.#end();
  }

  #end(): void {
    this.#turns.schedule.clear(this);
    this.watch?.end();
    this.watch = undefined;
    this.#turns.drop(this.#key);
  }
}

const turnsOf = new WeakMap<LeaseTable, Turns>();

/** All stores of this thread that share a table share its queues. */
export function turnsFor(table: LeaseTable): Turns {
  let turns = turnsOf.get(table);
  if (!turns) turnsOf.set(table, (turns = new Turns(table)));
  return turns;
}
