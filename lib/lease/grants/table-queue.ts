import { timerNow } from '../../common/elapsed.js';
import type { LeaseTable, LeaseWatch } from '../../engine/contract/lease-table.js';
import { onAdvance } from '../contract/lease-store.js';
import { slotKeys } from '../contract/slots.js';
import { Schedule, type Due } from '../time/schedule.js';
import type { Acquisition, Queues } from './acquisition.js';
import { QueueIndex, type KeyQueue } from './queue-index.js';

/**
 * The acquisitions of one thread that wait for keys of one memory table, in one line for each key of the table. The table
 * makes threads take turns. The first in a line tries when any thread releases the key, when the holder's lease expires, and
 * when it has become the first.
 */
export class TableQueues implements Queues {
  readonly #table: LeaseTable;
  readonly #queues = new QueueIndex<TableQueue>();
  /** By the key in the table, which has one for each thread. */
  readonly #watches = new Map<string, LeaseWatch>();
  /** It does not keep the process alive: the waiting acquisitions do. */
  readonly schedule = new Schedule(undefined, false);

  constructor(table: LeaseTable) {
    this.#table = table;
  }

  isAwaited(name: string): boolean {
    return !this.#queues.isEmpty && this.#queues.at(name).length > 0;
  }

  /** The slots that no acquisition waits for, of a key with a limit. Undefined for all. */
  unawaited(key: string, limit: number): readonly number[] | undefined {
    if (this.#queues.isEmpty) return undefined;
    return slotKeys(key, limit)
      .map((name, slot) => (this.isAwaited(name) ? -1 : slot))
      .filter((slot) => slot >= 0);
  }

  /** Adds it to the queue of the key. Tries it before returning only if it is alone there. */
  join(key: string, waiter: Acquisition): void {
    waiter.arrival = this.#queues.arrive();
    const queue = this.#queues.find(key, waiter.limit);
    if (queue) {
      queue.add(waiter);
      return;
    }
    const added = new TableQueue(this, this.#queues, key, waiter.limit);
    added.add(waiter);
    for (const name of this.#queues.add(added)) {
      const serve = (): void => this.#queues.first(name)?.serve();
      this.#watches.set(name, this.#table.watch(name, serve));
    }
    // The key may have been released before the watch began.
    added.serve();
  }

  leave(key: string, waiter: Acquisition): void {
    this.#queues.find(key, waiter.limit)?.leave(waiter);
  }

  /** A table never fails, and answers at once. A clock that fails is an error of the acquisition that read it. */
  answersFor(): undefined {
    return undefined;
  }

  drop(queue: TableQueue): void {
    if (this.#queues.find(queue.key, queue.limit) !== queue) return;
    for (const name of this.#queues.delete(queue)) {
      this.#watches.get(name)!.end();
      this.#watches.delete(name);
    }
  }
}

/** The acquisitions that wait for one key with one limit. */
class TableQueue implements Due, KeyQueue {
  deadline = Infinity;
  place = -1;
  /** Each with the function that ends its listening to its clock. */
  readonly #waiters = new Map<Acquisition, () => void>();
  readonly #queues: TableQueues;
  readonly #lines: QueueIndex<TableQueue>;
  #serving = false;

  constructor(
    queues: TableQueues,
    lines: QueueIndex<TableQueue>,
    readonly key: string,
    readonly limit: number,
  ) {
    this.#queues = queues;
    this.#lines = lines;
  }

  get arrival(): number {
    const [head] = this.#waiters.keys();
    return head?.arrival ?? Infinity;
  }

  add(waiter: Acquisition): void {
    const stopListening = onAdvance(waiter.clock, () => this.serve());
    this.#waiters.set(waiter, stopListening);
  }

  leave(waiter: Acquisition): void {
    const stopListening = this.#waiters.get(waiter);
    if (stopListening === undefined) return;
    const [head] = this.#waiters.keys();
    const shared = head === waiter ? this.#lines.sharedBy(this) : [];
    stopListening();
    this.#waiters.delete(waiter);
    if (head === waiter) this.serve();
    for (const name of shared) this.#lines.first(name)?.serve();
  }

  run(): void {
    this.serve();
  }

  serve(): void {
    // Settling a waiter makes it leave, and may run a subscriber that makes another one leave. The loop below sees that.
    if (this.#serving) return;
    this.#serving = true;
    for (const waiter of this.#waiters.keys()) {
      const slots = this.#lines.slotsOf(this);
      if (slots.length === 0) break;
      void waiter.attempt(slots);
      if (!this.#waiters.has(waiter)) continue;
      this.#queues.schedule.set(this, timerNow() + waiter.retryAfter);
      break;
    }
    this.#serving = false;
    if (this.#waiters.size === 0) this.#end();
  }

  #end(): void {
    this.#queues.schedule.clear(this);
    this.#queues.drop(this);
  }
}

const queuesOf = new WeakMap<LeaseTable, TableQueues>();

/** All stores of this thread that share a table share its queues. */
export function queuesFor(table: LeaseTable): TableQueues {
  let queues = queuesOf.get(table);
  if (!queues) queuesOf.set(table, (queues = new TableQueues(table)));
  return queues;
}
