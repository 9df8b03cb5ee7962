import { slotKeys } from '../contract/slots.js';

/** Created once: most queues are for one slot and lead its line alone. */
const ONLY_SLOT: readonly number[] = [0];
const NONE: readonly never[] = [];

/** Where acquisitions wait for a key, all with one limit. */
export interface KeyQueue {
  readonly key: string;
  readonly limit: number;
  /** When its first waiter joined it, as {@link QueueIndex.arrive} counted; Infinity without waiters. */
  readonly arrival: number;
}

/**
 * The waiting lines: one for each key of the store, in order of arrival, whatever the acquisitions in it want. An acquisition
 * with a limit stands in the line of each slot. Only the first in the line of a slot may take that slot.
 *
 * A line is kept as queues, one for each key and limit. Each queue is in order of arrival, so the first in the line is the
 * first of one of its queues, and a waiter costs the same whatever its limit.
 */
export class QueueIndex<Q extends KeyQueue> {
  readonly #queues = new Map<string, Q[]>();
  #arrivals = 0;

  get isEmpty(): boolean {
    return this.#queues.size === 0;
  }

  /** The number of an acquisition that joins a queue. Later ones have higher numbers. */
  arrive(): number {
    return ++this.#arrivals;
  }

  find(key: string, limit: number): Q | undefined {
    return this.#queues.get(key)?.find((queue) => queue.key === key && queue.limit === limit);
  }

  /** Those that wait for the key of the store, which is called `name`. */
  at(name: string): readonly Q[] {
    return this.#queues.get(name) ?? [];
  }

  /** The queue whose first waiter is the first in the line of the key of the store. */
  first(name: string): Q | undefined {
    const queues = this.at(name);
    if (queues.length < 2) return queues[0];
    return queues.reduce((first, queue) => (queue.arrival < first.arrival ? queue : first));
  }

  /** The slots that the first waiter of the queue may take. */
  slotsOf(queue: Q): readonly number[] {
    if (queue.limit === 1) return this.first(queue.key) === queue ? ONLY_SLOT : NONE;
    return slotKeys(queue.key, queue.limit)
      .map((name, slot) => (this.first(name) === queue ? slot : -1))
      .filter((slot) => slot >= 0);
  }

  /** The keys of the store whose lines the queue leads, and in which another queue stands, too. */
  sharedBy(queue: Q): readonly string[] {
    if (queue.limit === 1 && this.at(queue.key).length < 2) return NONE;
    return slotKeys(queue.key, queue.limit).filter(
      (name) => this.at(name).length > 1 && this.first(name) === queue,
    );
  }

  /** Returns the names for which no other queue waits. */
  add(queue: Q): readonly string[] {
    return slotKeys(queue.key, queue.limit).filter((name) => {
      const queues = this.#queues.get(name);
      if (queues === undefined) this.#queues.set(name, [queue]);
      else queues.push(queue);
      return queues === undefined;
    });
  }

  /** Returns the names for which no queue waits any more. */
  delete(queue: Q): readonly string[] {
    return slotKeys(queue.key, queue.limit).filter((name) => {
      const left = this.at(name).filter((other) => other !== queue);
      if (left.length > 0) this.#queues.set(name, left);
      else this.#queues.delete(name);
      return left.length === 0;
    });
  }
}
