import { slotKeys } from '../contract/slots.js';

/** Where acquisitions wait for a key, all with one limit. */
export interface KeyQueue {
  readonly key: string;
  readonly limit: number;
}

/** Queues by the keys of the store that those in them wait for: a queue for a key with a limit waits for each slot. */
export class QueueIndex<Q extends KeyQueue> {
  readonly #queues = new Map<string, Q[]>();

  get isEmpty(): boolean {
    return this.#queues.size === 0;
  }

  find(key: string, limit: number): Q | undefined {
    return this.#queues.get(key)?.find((queue) => queue.limit === limit);
  }

  /** Those that wait for the key of the store, which is called `name`. */
  at(name: string): readonly Q[] {
    return this.#queues.get(name) ?? [];
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
