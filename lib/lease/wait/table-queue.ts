import { performance } from '../../common/host.js';
import type { LeaseTable, LeaseWatch } from '../../engine/contract/lease-table.js';
import { onAdvance, type Clock } from '../contract/lease-store.js';
import type { Lease } from '../hold/lease.js';
import { FOREIGN_CLOCK_POLL, Schedule, type Due } from '../time/schedule.js';
import { WaitingAcquisition, type Wait } from './acquisition.js';

/** Tries once: a lease, or the milliseconds after which to try again at the latest. */
export type TryTurn = () => Lease | number;

/**
 * The acquisitions of one thread that wait for keys of one memory table: first come, first served for each key. The
 * table makes threads take turns. The head of a queue tries when any thread releases the key, when the holder's lease
 * expires, and when the head has changed.
 */
export class TableQueues {
  readonly #table: LeaseTable;
  readonly #queues = new Map<string, TableQueue>();
  /** It does not keep the process alive: the waiting acquisitions do. */
  readonly schedule = new Schedule(undefined, false);

  constructor(table: LeaseTable) {
    this.#table = table;
  }

  /** Whether an acquisition of this thread waits for the key, and so comes first. */
  isAwaited(key: string): boolean {
    return this.#queues.size > 0 && this.#queues.has(key);
  }

  /** Adds it to the queue of the key. Tries it before returning only if it is alone there. */
  join(key: string, waiter: TableAcquisition): void {
    const queue = this.#queues.get(key);
    if (queue) {
      queue.waiters.add(waiter);
      return;
    }
    const added = new TableQueue(this, key);
    this.#queues.set(key, added);
    added.waiters.add(waiter);
    added.watch = this.#table.watch(key, () => added.serve());
    // The key may have been released before the watch began.
    added.serve();
  }

  leave(key: string, waiter: TableAcquisition): void {
    const queue = this.#queues.get(key);
    if (!queue?.waiters.has(waiter)) return;
    const [head] = queue.waiters;
    queue.waiters.delete(waiter);
    if (head === waiter || queue.waiters.size === 0) queue.serve();
  }

  /** Tries the head for the key, because a clock was set. */
  serve(key: string): void {
    this.#queues.get(key)?.serve();
  }

  drop(key: string): void {
    this.#queues.delete(key);
  }
}

/** The queue for one key. */
class TableQueue implements Due {
  deadline = Infinity;
  place = -1;
  readonly waiters = new Set<TableAcquisition>();
  watch: LeaseWatch | undefined;
  readonly #queues: TableQueues;
  readonly #key: string;
  #serving = false;

  constructor(queues: TableQueues, key: string) {
    this.#queues = queues;
    this.#key = key;
  }

  run(): void {
    this.serve();
  }

  serve(): void {
    // Settling a waiter may run a subscriber that makes another one leave. The loop below sees that.
    if (this.#serving || this.watch === undefined) return;
    this.#serving = true;
    for (const waiter of this.waiters) {
      const retryAfter = waiter.attempt();
      if (retryAfter !== undefined) {
        if (!this.waiters.has(waiter)) continue;
        this.#queues.schedule.set(this, performance.now() + retryAfter);
        break;
      }
      this.waiters.delete(waiter);
    }
    this.#serving = false;
    if (this.waiters.size === 0) this.#end();
  }

  #end(): void {
    this.#queues.schedule.clear(this);
    this.watch?.end();
    this.watch = undefined;
    this.#queues.drop(this.#key);
  }
}

/** Waits in the queue of its key, which tries it when it is its turn. */
export class TableAcquisition extends WaitingAcquisition {
  readonly #queues: TableQueues;
  readonly #tryTurn: TryTurn;
  readonly #foreignClock: boolean;
  readonly #stopListening: () => void;

  /** `clock`: the table's, unless it reads its own. */
  constructor(wait: Wait, queues: TableQueues, clock: Clock | undefined, tryTurn: TryTurn) {
    super(wait);
    this.#queues = queues;
    this.#tryTurn = tryTurn;
    this.#foreignClock = clock !== undefined;
    this.#stopListening = onAdvance(clock, () => queues.serve(this.key));
  }

  start(): void {
    this.#queues.join(this.key, this);
  }

  /** Undefined if it is settled now, else the milliseconds after which to try again at the latest. */
  attempt(): number | undefined {
    if (this.settled) return undefined;
    try {
      const result = this.#tryTurn();
      if (typeof result === 'number') {
        return this.#foreignClock ? Math.min(result, FOREIGN_CLOCK_POLL) : result;
      }
      this.grant(result);
    } catch (error) {
      this.fail(error);
    }
    return undefined;
  }

  protected leave(): void {
    this.#stopListening();
    this.#queues.leave(this.key, this);
  }
}

const queuesOf = new WeakMap<LeaseTable, TableQueues>();

/** All stores of this thread that share a table share its queues. */
export function queuesFor(table: LeaseTable): TableQueues {
  let queues = queuesOf.get(table);
  if (!queues) queuesOf.set(table, (queues = new TableQueues(table)));
  return queues;
}
