import { defer } from '../../common/host.js';
import { GRANTED_LATE, type AsyncWaiter, type Outcome, type Request } from '../contract/engine.js';
import { METRIC_CELLS } from '../contract/layout.js';
import type { Mode } from '../contract/mode.js';
import { joinGivesWay, leaveGivesWay, recover } from './blocking.js';
import { Delivery } from './delivery.js';
import { clock, makeRoom } from './host.js';
import { CALLED, LOOKS } from './lanes.js';
import { LocalQueue, Pending } from './local-queue.js';
import { LocalQueues, type QueuesOwner } from './local-queues.js';
import type { Stripes } from './stripes.js';
import type { GivesWay } from './thread.js';
import { WaitTimes, type TimedWaits } from './wait-times.js';

/** What the waits need of the table that they belong to. */
export interface AsyncWaitsOwner {
  readonly cells: BigInt64Array;
  timedOut(stripe: number): Outcome;
}

/**
 * The acquisitions of one thread and lock that wait without blocking the thread, from the start to the outcome.
 *
 * I7  A stripe that was taken for an acquisition that is not settled can be given back at any time.
 *
 * They wait in {@link LocalQueues}, which says what happens if a stack overflow ends a call that user code makes here.
 */
export class AsyncWaits implements GivesWay, QueuesOwner, TimedWaits {
  readonly unfinished = new Set<Pending | LocalQueue>();
  readonly #owner: AsyncWaitsOwner;
  readonly #queues: LocalQueues;
  readonly #byWaiter = new Map<AsyncWaiter, Pending>();
  readonly #delivery = new Delivery<Pending>((entry) => this.#deliver(entry));
  readonly #times = new WaitTimes(this);
  /** While the thread is blocked: what it put off. */
  #aside: Pending[] = [];
  #joined = false;

  constructor(stripes: Stripes, owner: AsyncWaitsOwner) {
    this.#owner = owner;
    this.#queues = new LocalQueues(stripes, this);
  }

  /**
   * Goes on with an acquisition that could not take `request.stripes[request.taken]`. True: has taken all at once. Where it
   * throws, the caller still has what it had taken, and no more when the microtasks have run.
   */
  start(request: Request, waiter: AsyncWaiter): boolean {
    makeRoom();
    const entry = new Pending(waiter, request, clock());
    // Read here, as a getter can overflow the stack, and the `catch` below has room for `defer` alone.
    const { taken } = entry;
    try {
      if (this.#queues.advance(entry, false)) {
        this.#updateJoined();
        return true;
      }
      const { cells } = this.#owner;
      Atomics.add(cells, METRIC_CELLS.contended, 1n);
      Atomics.add(cells, METRIC_CELLS.waiting, 1n);
      entry.isCounted = true;
      this.#byWaiter.set(waiter, entry);
      this.#updateJoined();
      this.#times.start(entry);
      return false;
    } catch (error) {
      entry.isGivenUp = true;
      entry.kept = taken;
      this.unfinished.add(entry);
      defer(this.finish, undefined);
      throw error;
    }
  }

  /** See `LockTable.cancel`. */
  cancel(waiter: AsyncWaiter): boolean {
    const entry = this.#byWaiter.get(waiter);
    if (entry === undefined || entry.isGivenUp) return false;
    this.#giveUp(entry);
    return true;
  }

  /** Gives a stripe back: to this thread's next waiter, or to all. Where it throws, the stripe is still held. */
  release(stripe: number, mode: Mode): void {
    this.#queues.release(stripe, mode);
  }

  /** All that are in queues. */
  waiting(): Iterable<Pending> {
    return this.#queues.waiting();
  }

  get holdsAny(): boolean {
    return this.#queues.partial.size > 0 || !this.#delivery.isEmpty;
  }

  withdrawClaims(): void {
    this.#queues.block();
    this.#queues.withdrawClaims();
  }

  giveBack(): void {
    makeRoom();
    this.#queues.block();
    const aside = this.#aside;
    const first = aside.length;
    // First all are noted, with no call in between (I8).
    for (const entry of this.#queues.partial) {
      entry.state = 'aside';
      aside.push(entry);
    }
    for (const entry of this.#delivery.takeBack()) {
      if (entry.state !== 'ready') continue;
      entry.state = 'aside';
      aside.push(entry);
    }
    for (let i = first; i < aside.length; i++) {
      const entry = aside[i]!;
      entry.queue?.remove(entry);
      this.#releaseTaken(entry);
    }
  }

  relayCalls(): boolean {
    return this.#queues.relayCalls();
  }

  resume(): void {
    makeRoom();
    const aside = this.#aside;
    if (aside.length > 1) aside.sort((a, b) => a.since - b.since);
    this.#queues.unblock();
    // Last first, as each goes to the front of its queue.
    for (let entry; (entry = aside.pop()) !== undefined;) {
      // Another outcome may have come first.
      if (entry.state !== 'aside') continue;
      entry.state = 'waiting';
      try {
        entry.queue?.remove(entry);
        // Its time goes on: it had been granted, and now is not.
        this.#times.add(entry);
        if (this.#queues.advance(entry, true)) this.makeReady(entry);
      } catch {
        this.unfinished.add(entry);
        defer(this.finish, undefined);
      }
    }
    // Where it fails, this is called again.
    this.#queues.armAgain();
  }

  leave(): void {
    this.withdrawClaims();
    this.giveBack();
    for (const entry of this.#byWaiter.values()) {
      entry.queue?.remove(entry);
      this.#uncount(entry);
    }
    this.#byWaiter.clear();
    this.#queues.leaveLanes();
  }

  get needsLooks(): boolean {
    return this.#byWaiter.size > 0 || this.#queues.any;
  }

  lookAgain(): void {
    recover();
    this.#queues.lookAgain();
    this.#delivery.schedule();
  }

  expire(entry: Pending): void {
    recover();
    const { queue } = entry;
    // The event loop may have been busy, and the call that came meanwhile still be in it.
    if (queue?.first === entry) this.#queues.pump(queue, LOOKS);
    if (entry.state !== 'waiting') {
      this.#times.remove(entry);
      return;
    }
    const outcome = this.#owner.timedOut(entry.wanted);
    this.#drop(entry);
    entry.waiter.settle(outcome);
  }

  called(queue: LocalQueue): void {
    recover();
    this.#queues.pump(queue, CALLED);
    this.#updateJoined();
  }

  makeReady(entry: Pending): void {
    makeRoom();
    if (entry.state !== 'ready') {
      this.#delivery.add(entry);
      entry.state = 'ready';
    }
    this.#delivery.schedule();
  }

  /** Does what a stack overflow has left undone. Where one is caught, there is room for no call but that of `defer`. */
  readonly finish = (): void => {
    recover();
    for (const what of this.unfinished) {
      this.unfinished.delete(what);
      // A head may have left undone what its call was for.
      if (what instanceof LocalQueue) this.#queues.pumpAgain(what);
      else if (what.isGivenUp) this.#drop(what);
      else this.#goOn(what);
    }
    this.#updateJoined();
  };

  /** Goes on with an acquisition wherever it was left. */
  #goOn(entry: Pending): void {
    const { state, queue } = entry;
    if (state === 'ready') this.#delivery.schedule();
    if (state !== 'waiting') return;
    if (queue !== undefined) this.#queues.pump(queue, LOOKS);
    else if (this.#queues.advance(entry, true)) this.makeReady(entry);
  }

  #deliver(entry: Pending): boolean {
    if (entry.state !== 'ready' || entry.isGivenUp) return false;
    this.#forget(entry);
    entry.waiter.settle(GRANTED_LATE);
    return true;
  }

  #forget(entry: Pending): void {
    entry.state = 'settled';
    this.#byWaiter.delete(entry.waiter);
    this.#times.remove(entry);
    this.#queues.partial.delete(entry);
    this.#uncount(entry);
    this.#updateJoined();
    if (this.#byWaiter.size === 0) this.#times.letGo();
  }

  #uncount(entry: Pending): void {
    if (entry.isCounted) Atomics.sub(this.#owner.cells, METRIC_CELLS.waiting, 1n);
    entry.isCounted = false;
  }

  #updateJoined(): void {
    const joins = this.#byWaiter.size > 0 || this.#queues.anyAsleep;
    if (joins === this.#joined) return;
    if (joins) joinGivesWay(this);
    else leaveGivesWay(this);
    this.#joined = joins;
  }

  /** It is not going to be settled. It gives back what it holds, now or where there is stack again. */
  #giveUp(entry: Pending): void {
    makeRoom();
    entry.isGivenUp = true;
    try {
      this.#drop(entry);
    } catch {
      this.unfinished.add(entry);
      defer(this.finish, undefined);
    }
  }

  /** Takes an acquisition out; it holds nothing then. */
  #drop(entry: Pending): void {
    makeRoom();
    const { queue } = entry;
    const wasFirst = queue?.first === entry;
    // From here on, and if it fails, this is nobody's; the queue is looked after in any case.
    if (wasFirst) this.unfinished.add(queue);
    queue?.remove(entry);
    this.#forget(entry);
    this.#releaseTaken(entry);
    if (!wasFirst) return;
    this.unfinished.delete(queue);
    try {
      this.#queues.headLeft(queue);
    } catch {
      this.unfinished.add(queue);
      defer(this.finish, undefined);
    }
  }

  #releaseTaken(entry: Pending): void {
    while (entry.taken > entry.kept) {
      this.release(entry.stripes[entry.taken - 1]!, entry.mode);
      entry.taken--;
    }
    this.#queues.partial.delete(entry);
  }
}
