import type { AsyncWaiter, Outcome } from '../contract/engine.js';
import { METRIC_CELLS } from '../contract/layout.js';
import type { Addon } from './addon.js';
import type { LocalWaits } from './local-waits.js';
import type { LocalWait } from './stripe-state.js';

/**
 * A waiter in a {@link LocalQueue} has this ticket or a lower one, by the number of the waiters that had come to the stripe's
 * queue in the addon before it. So the addon knows its place if it is to wait there. No waiter of the addon has a negative
 * ticket.
 */
export const LOCAL_TICKET = -2;

/** Milliseconds from which on a timeout counts from the next tick of the thread, so that nobody reads the clock at a start. */
export const LONG_TIMEOUT = 1000;

/** One thread's acquisitions that wait for a stripe in JavaScript, in order of arrival, linked by `previous` and `next`. */
export class LocalQueue {
  readonly local: LocalWaits;
  readonly stripe: number;
  first: AsyncWaiter | undefined = undefined;
  last: AsyncWaiter | undefined = undefined;
  /** The one that waits in the addon, before all of these. */
  standIn: AsyncWaiter | undefined = undefined;
  /** The stripe's word has this thread's slot and LOCAL. */
  armed = false;
  /** The thread holds the stripe for the first waiter, who has yet to learn of it. */
  handing = false;
  /** The first waiter will learn that an earlier holder's thread ended. */
  abandoned = false;
  /** While other threads wait: until when the stripe may stay in this thread, in milliseconds. 0: to be asked. */
  keptUntil = 0;
  /** See `HandOvers`. */
  isHanded = false;
  nextHanded: LocalQueue | undefined = undefined;

  constructor(local: LocalWaits, stripe: number) {
    this.local = local;
    this.stripe = stripe;
  }

  /** The stripe is held by this thread, or another one of it waits in the addon: see I9 in `local-waits.ts`. */
  get isLookedAfter(): boolean {
    return this.armed || this.handing || this.standIn !== undefined;
  }

  /** Calls nothing. */
  unlink(waiter: AsyncWaiter): void {
    const { previous, next } = waiter;
    if (previous === undefined) this.first = next;
    else previous.next = next;
    if (next === undefined) this.last = previous;
    else next.previous = previous;
    waiter.previous = waiter.next = undefined;
  }
}

/** The queues of one thread for the stripes of one lock. */
export class LocalQueues {
  readonly #byStripe = new Map<number, LocalQueue>();
  /** The one that was last looked for. */
  #last: LocalQueue | undefined = undefined;

  get(stripe: number): LocalQueue | undefined {
    const last = this.#last;
    if (last !== undefined && last.stripe === stripe) return last;
    const queue = this.#byStripe.get(stripe);
    if (queue !== undefined) this.#last = queue;
    return queue;
  }

  open(local: LocalWaits, stripe: number): LocalQueue {
    const queue = new LocalQueue(local, stripe);
    this.#byStripe.set(stripe, queue);
    this.#last = queue;
    return queue;
  }

  /** What waits in one of them, in order. */
  waiting(stripe: number, now: number): LocalWait[] {
    const waiting: LocalWait[] = [];
    for (let waiter = this.get(stripe)?.first; waiter !== undefined; waiter = waiter.next) {
      waiting.push({ waiter, waitingFor: waiter.since === 0 ? 0 : Math.max(0, now - waiter.since) });
    }
    return waiting;
  }

  /** Forgets those that are not used any more. */
  sweep(): void {
    for (const [stripe, queue] of this.#byStripe) {
      if (queue.first !== undefined || queue.isLookedAfter || queue.isHanded) continue;
      this.#byStripe.delete(stripe);
      if (this.#last === queue) this.#last = undefined;
    }
  }

  /** Those that are new wait since `time` from now on. Returns when the first of them is due. */
  date(time: number): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.last; waiter !== undefined; waiter = waiter.previous) {
        if (waiter.since === 0) {
          waiter.since = time;
          next = Math.min(next, time + waiter.timeout);
        } else if (waiter.timeout >= LONG_TIMEOUT) {
          // Those before it were new at the same tick, or earlier.
          break;
        }
      }
    }
    return next;
  }

  /** Adds those that are due by then to `due`, in the order of their times. Returns when the next is due. */
  collectDue(now: number, due: AsyncWaiter[]): number {
    let next = Infinity;
    for (const queue of this.#byStripe.values()) {
      for (let waiter = queue.first; waiter !== undefined; waiter = waiter.next) {
        const deadline = waiter.since + waiter.timeout;
        if (deadline > now) next = Math.min(next, deadline);
        // A grant in time counts, however late it is delivered.
        else if (!queue.handing || waiter !== queue.first) due.push(waiter);
      }
    }
    due.sort((a, b) => a.since + a.timeout - (b.since + b.timeout));
    return next;
  }
}

/** This many acquisitions that had to wait are counted here before the table's cell gets them. */
const MOST_CONTENDED = 2 ** 20;

/** A table, as what waits in JavaScript needs it. */
export interface LocalTable {
  /** The addon's number for it. */
  readonly number: number;
  readonly stripes: number;
  readonly cells: BigInt64Array;
  /** The lock's own words. */
  readonly words: Int32Array;
}

/**
 * Counts what waits in this thread's JavaScript where the addon reads it for `stats()` and `inspect()` in any thread
 * (`openLocals` in `native/core/membership.h`). Only this thread writes there, and so needs no atomics. If the thread ends,
 * the counts end with it.
 */
export class LocalCounts {
  readonly #table: LocalTable;
  readonly #addon: Addon;
  #counts: Int32Array | undefined = undefined;

  constructor(table: LocalTable, addon: Addon) {
    this.#table = table;
    this.#addon = addon;
  }

  /** A count for each stripe, then that of all, then that of all that ever waited. There is room for one more. */
  ready(): Int32Array {
    const counts = this.#counts ?? this.#open();
    if (counts[this.#table.stripes + 1]! >= MOST_CONTENDED) this.#flush(counts);
    return counts;
  }

  #open(): Int32Array {
    const { number, stripes } = this.#table;
    // Shared memory, for the same reason as in `NativeTable.openShares`.
    const memory = new SharedArrayBuffer((stripes + 2) * Int32Array.BYTES_PER_ELEMENT);
    return (this.#counts = this.#addon.openLocals(number, new Int32Array(memory)));
  }

  #flush(counts: Int32Array): void {
    const last = this.#table.stripes + 1;
    Atomics.add(this.#table.cells, METRIC_CELLS.contended, BigInt(counts[last]!));
    counts[last] = 0;
  }
}

/** How many acquisitions of one thread wait in the addon for each stripe, but for stand-ins (`local-waits.ts`). */
export class Elsewhere {
  readonly #stripes: number;
  #counts: Int32Array | undefined = undefined;

  constructor(stripes: number) {
    this.#stripes = stripes;
  }

  has(stripe: number): boolean {
    return this.#counts !== undefined && this.#counts[stripe] !== 0;
  }

  /**
   * Counts a waiter that `ask` makes wait there, and returns what that returned. It is counted before: a loop can end in a
   * stack overflow, as V8 looks at the stack where it begins anew, and then the waiter would be lost (keeps T1).
   */
  join(waiter: AsyncWaiter, ask: () => Outcome | undefined): Outcome | undefined {
    const counts = (this.#counts ??= new Int32Array(this.#stripes));
    const { stripes } = waiter;
    for (let i = 0; i < stripes.length; i++) counts[stripes[i]!]!++;
    try {
      const outcome = ask();
      // From here on this calls nothing (keeps T1).
      if (outcome === undefined) waiter.queue = this;
      return outcome;
    } finally {
      if (waiter.queue !== this) {
        try {
          for (let i = 0; i < stripes.length; i++) counts[stripes[i]!]!--;
        } catch {
          // The stack overflowed in the loop. Some count too many: later ones wait in the addon, too, though they need not.
        }
      }
    }
  }

  /** One waits there no more. If this throws, some still count: see {@link join}. */
  left(waiter: AsyncWaiter): void {
    const counts = this.#counts!;
    const { stripes } = waiter;
    waiter.queue = undefined;
    for (let i = 0; i < stripes.length; i++) counts[stripes[i]!]!--;
  }
}
