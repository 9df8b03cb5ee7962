import { afterTurn, defer } from '../../common/host.js';
import type { AsyncWaiter, Outcome } from '../contract/engine.js';
import type { Addon } from './addon.js';

/** Acquisitions that wait in JavaScript. */
export interface TimedList {
  /** Settles those whose time is over. Returns when to look again, on the clock of `performance.now()`. */
  expire(now: number): number;
  /** Nothing of the thread waits any more. */
  rest(): void;
  isListed: boolean;
}

/** How many acquisitions of a thread are pending, and that the event loop stays alive for them. */
export class Pending {
  /** In the addon and in JavaScript. */
  count = 0;
  /** Whether the addon keeps the event loop alive. */
  isAlive = false;
  readonly #addon: Addon;
  #lettingGo = false;
  /** Those with waiters: this keeps them from being collected. */
  readonly #lists = new Set<TimedList>();
  readonly #letGo = (): void => {
    this.#lettingGo = false;
    if (this.count > 0) return;
    for (const list of this.#lists) {
      list.rest();
      list.isListed = false;
    }
    this.#lists.clear();
    this.#addon.keepAlive(false);
    this.isAlive = false;
  };

  constructor(addon: Addon) {
    this.#addon = addon;
  }

  /** From now on the list is looked at, until nothing is pending. */
  list(list: TimedList): void {
    this.#lists.add(list);
    list.isListed = true;
  }

  /** Before the count rises. */
  stayAlive(): void {
    if (this.isAlive) return;
    this.#addon.keepAlive(true);
    this.isAlive = true;
  }

  /** Before the count falls. The event loop is let go a turn later: often another one waits by then. */
  prepareEnd(): void {
    if (this.count !== 1 || this.#lettingGo) return;
    afterTurn(this.#letGo);
    this.#lettingGo = true;
  }

  /** Settles a waiter of one of the lists, on an empty stack. */
  settle(waiter: AsyncWaiter, outcome: Outcome): void {
    try {
      waiter.settle(outcome);
    } catch {
      defer(() => waiter.settle(outcome), undefined);
    }
  }

  /** Lets the lists settle what is due. Returns in how many milliseconds the next is. */
  expire(now: number): number {
    let next = Infinity;
    for (const list of this.#lists) next = Math.min(next, list.expire(now));
    return next - now;
  }
}
