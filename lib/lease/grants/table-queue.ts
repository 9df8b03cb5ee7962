import { timerNow } from '../../common/elapsed.js';
import type { LeaseTable, LeaseWatch } from '../../engine/contract/lease-table.js';
import { onAdvance } from '../contract/lease-store.js';
import { Schedule, type Due } from '../time/schedule.js';
import type { Acquisition, Queues } from './acquisition.js';
import { QueueIndex, type KeyQueue } from './queue-index.js';

/**
 * The acquisitions of one thread that wait for keys of one memory table: first come, first served for each key. The
 * table makes threads take turns. The head of a queue tries when any thread releases the key, when the holder's lease
 * expires, and when the head has changed.
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

  isAwaited(key: string, limit: number): boolean {
    return !this.#queues.isEmpty && this.#queues.find(key, limit) !== undefined;
  }

  /** Adds it to the queue of the key. Tries it before returning only if it is alone there. */
  join(key: string, waiter: Acquisition): void {
    const queue = this.#queues.find(key, waiter.limit);
    if (queue) {
      queue.add(waiter);
      return;
    }
    const added = new TableQueue(this, key, waiter.limit);
    added.add(waiter);
    for (const name of this.#queues.add(added)) {
      const serve = (): void => this.#queues.at(name).forEach((awaiting) => awaiting.serve());
      this.#watches.set(name, this.#table.watch(name, serve));
    }
    // The key may have been released before the watch began.
    added.serve();
  }

  leave(key: string, waiter: Acquisition): void {
    this.#queues.find(key, waiter.limit)?.leave(waiter);
  }

  /** A table never fails: a clock that does is an error of the acquisition that read it. */
  failureOf(): undefined {
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

/** The queue for one key. */
class TableQueue implements Due, KeyQueue {
  deadline = Infinity;
  place = -1;
  /** Each with the function that ends its listening to its clock. */
  readonly #waiters = new Map<Acquisition, () => void>();
  readonly #queues: TableQueues;
  #serving = false;

  constructor(
    queues: TableQueues,
    readonly key: string,
    readonly limit: number,
  ) {
    this.#queues = queues;
  }

  add(waiter: Acquisition): void {
    const stopListening = onAdvance(waiter.clock, () => this.serve());
    this.#waiters.set(waiter, stopListening);
  }

  leave(waiter: Acquisition): void {
    const stopListening = this.#waiters.get(waiter);
    if (stopListening === undefined) return;
    const [head] = this.#waiters.keys();
    stopListening();
    this.#waiters.delete(waiter);
    if (head === waiter) this.serve();
  }

  run(): void {
    this.serve();
  }

  serve(): void {
    // Settling a waiter makes it leave, and may run a subscriber that makes another one leave. The loop below sees that.
    if (this.#serving) return;
    this.#serving = true;
    for (const waiter of this.#waiters.keys()) {
      void waiter.attempt();
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
