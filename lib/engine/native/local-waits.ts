import { performance } from '../../common/host.js';
import {
  GRANTED_LATE,
  GRANTED_LATE_WITH_ABANDONED,
  type AsyncWaiter,
  type Outcome,
} from '../contract/engine.js';
import { ARRIVAL_MASK, ARRIVALS_INT, METRIC_CELLS, wordIndex } from '../contract/layout.js';
import { ABANDONED, HOLDER_MASK, LOCAL, QUEUED, SHARED } from '../contract/lock-word.js';
import { EXCLUSIVE_MODE } from '../contract/mode.js';
import { LOCAL_TICKET, LocalQueues, LONG_TIMEOUT, type LocalQueue } from './local-queue.js';
import type { LocalWait } from './stripe-state.js';
import type { NativeThread } from './thread.js';

/**
 * A long timeout (see `LONG_TIMEOUT`) starts to run when the thread next checks its waiters. The delay until
 * this check is at most 1 / `TICKS` of the timeout, and at most `LONGEST_TICK` milliseconds.
 */
const TICKS = 256;
const LONGEST_TICK = 10;
/**
 * When this thread's count of contended acquisitions reaches this number, the count is added to the table's
 * metric and restarts at 0.
 */
const MOST_CONTENDED = 2 ** 20;
/** The bits of a word that determine the holder. */
const HOLDER = SHARED | HOLDER_MASK;

/** The parts of a table that local waits use. */
interface LocalTable {
  /** The addon's number of the table. */
  readonly number: number;
  readonly stripes: number;
  readonly cells: BigInt64Array;
  /** The lock's memory, which contains the words of its stripes. */
  readonly words: Int32Array;
}

/**
 * Passes the stripes of a lock between the async tasks of one thread, without the addon. A release resolves
 * the promise of the next task, and the stripe's word does not change.
 *
 * Usually at most one exclusive acquisition of the thread waits for a stripe in the addon: the stand-in. The
 * thread's other exclusive acquisitions of that stripe wait in JavaScript, behind the stand-in. This design
 * follows lock cohorting (Dice, Marathe, Shavit 2012), with threads in place of NUMA nodes. An acquisition of
 * several stripes always waits in the addon.
 *
 * The invariants continue the list in `native/core/table/table.h`:
 *
 * I8   LOCAL appears only in a word with a slot. Only the thread with that slot sets LOCAL, and only while
 *      one of its guards holds the stripe, or while the stripe is being handed over within the thread.
 *      Because of LOCAL, the fast path cannot release the stripe, so {@link release} handles the release.
 *      Each change that removes the slot from the word also clears LOCAL.
 * I9   While a queue has waiters, one of three conditions holds. `armed`: the thread holds the stripe with
 *      LOCAL set. `handing`: the thread holds the stripe for the first waiter, but has not notified this
 *      waiter yet. `standIn`: another acquisition of the thread waits in the addon ahead of the queue. When
 *      the stand-in stops waiting without a grant, the first waiter replaces it before other code runs.
 * I10  A thread's exclusive acquisitions of a stripe are granted in order of arrival, unless the addon
 *      revokes a grant (I7). Each ticket records how many acquisitions had joined the addon's queue earlier.
 *      So a waiter that becomes the stand-in gets the right place among the acquisitions of other threads.
 *      Apart from the stand-in, acquisitions of the thread may wait in the addon for the stripe, or for
 *      several stripes of the lock. While such acquisitions wait, later acquisitions of the stripe wait in
 *      the addon behind them.
 * I11  While other threads wait, a stripe stays in this thread only until the addon's barging period ends
 *      (`kBargingPeriod` in `native/core/base/sync.h`). After that, a release makes the first waiter of the
 *      queue the stand-in, and the addon decides which thread gets the stripe.
 *
 * If the thread ends between any two lines, its waiters and counts disappear with its memory. The addon then
 * frees the stripes that have its slot, and removes its stand-ins. If a call throws, the invariants still
 * hold (preserves T1).
 */
export class LocalWaits {
  readonly isQueue = false;
  readonly #table: LocalTable;
  readonly #thread: NativeThread;
  readonly #words: Int32Array;
  readonly #slot: number;
  readonly #queues = new LocalQueues();
  /**
   * Counts of this thread's waiters in JavaScript: one count for each stripe, then the sum of these counts,
   * then the number of contended acquisitions (see `MOST_CONTENDED`). The addon reads the counts for
   * `stats()` and `inspect()` of any thread (`openLocals` in `native/core/table/membership.h`). Only this
   * thread writes the counts, without atomic operations. The counts disappear with the thread.
   */
  #counts: Int32Array | undefined = undefined;
  /**
   * Counts of this thread's acquisitions that wait in the addon, except stand-ins. The element of each stripe
   * counts the acquisitions that request only this stripe. The last element counts the acquisitions that
   * request several stripes.
   */
  #elsewhere: Int32Array | undefined = undefined;
  /** Whether the thread checks the deadlines of this object's waiters: see {@link NativeThread.list}. */
  isListed = false;
  /**
   * The earliest time, by `performance.now()`, at which a waiter can time out. Waiters with a timeout that
   * has not started are not included.
   */
  #nextDue = Infinity;

  constructor(table: LocalTable, thread: NativeThread) {
    this.#table = table;
    this.#thread = thread;
    this.#words = table.words;
    this.#slot = thread.slot;
  }

  /**
   * Starts an exclusive acquisition of one stripe, with a positive timeout. Returns the outcome, or undefined
   * if the acquisition waits.
   */
  start(waiter: AsyncWaiter): Outcome | undefined {
    const stripe = waiter.only;
    const thread = this.#thread;
    if (thread.blocked || this.#waitElsewhere(stripe)) return this.startElsewhere(waiter);
    const queue = this.#queues.get(stripe) ?? this.#queues.open(this, stripe);
    if (!queue.willBeServed && !this.#arm(queue)) return this.#startAsStandIn(queue, waiter);
    const counts = (this.#counts ??= this.#openCounts());
    const { timeout } = waiter;
    const isLong = timeout >= LONG_TIMEOUT;
    const since = isLong ? 0 : Math.ceil(performance.now());
    if (!isLong) this.#nextDue = Math.min(this.#nextDue, since + timeout);
    thread.scheduleWithin(isLong ? Math.min(timeout / TICKS, LONGEST_TICK) : timeout);
    thread.list(this);
    thread.stayAlive();
    // From here on, no function is called (preserves T1).
    const { stripes } = this.#table;
    const { last } = queue;
    waiter.ticket = LOCAL_TICKET - (this.#words[wordIndex(stripe) + ARRIVALS_INT]! & ARRIVAL_MASK);
    waiter.queue = queue;
    waiter.since = since;
    waiter.previous = last;
    if (last === undefined) queue.first = waiter;
    else last.next = waiter;
    queue.last = waiter;
    counts[stripe]!++;
    counts[stripes]!++;
    counts[stripes + 1]!++;
    thread.pending++;
    return undefined;
  }

  /** Starts an acquisition. If the acquisition has to wait, it waits in the addon. */
  startElsewhere(waiter: AsyncWaiter): Outcome | undefined {
    const counts = (this.#elsewhere ??= new Int32Array(this.#table.stripes + 1));
    const place = this.#placeElsewhere(waiter);
    const outcome = this.#thread.acquireAsync(this.#table.number, waiter, waiter.timeout, -1, 0);
    // From here on, no function is called (preserves T1).
    if (outcome === undefined) {
      waiter.queue = this;
      counts[place]!++;
    }
    return outcome;
  }

  /**
   * Call this before the end of a wait that {@link startElsewhere} has started. If this throws, nothing has
   * changed.
   */
  leftElsewhere(waiter: AsyncWaiter): void {
    this.#elsewhere![this.#placeElsewhere(waiter)]!--;
  }

  #placeElsewhere({ only }: AsyncWaiter): number {
    return only < 0 ? this.#table.stripes : only;
  }

  #waitElsewhere(stripe: number): boolean {
    const counts = this.#elsewhere;
    return counts !== undefined && (counts[stripe] !== 0 || counts[this.#table.stripes] !== 0);
  }

  /**
   * Releases a stripe if this thread's queue can do so. Returns true if the release is complete, and false if
   * the caller must release the stripe in the addon.
   */
  release(stripe: number): boolean {
    const queue = this.#queues.get(stripe);
    if (queue === undefined || !queue.armed) return false;
    // The read is not atomic, because V8 does not inline `Atomics.load`. If the word has this thread's slot,
    // the slot is up to date, because only this thread can remove it. The flags may be outdated, so each
    // change of the word below checks them again.
    const word = this.#words[wordIndex(stripe)]!;
    // During a hand-over, no guard holds the stripe, so there is nothing to release.
    if ((word & HOLDER) !== this.#slot || queue.handing) return queue.handing;
    if (queue.standIn !== undefined) return this.#releaseInCore(queue, false);
    if (queue.first === undefined)
      return this.#releaseUncontended(queue) || this.#releaseInCore(queue, false);
    if (this.#thread.blocked) return this.#yield(queue, false);
    if ((word & QUEUED) === 0) queue.keptUntil = 0;
    else if (!this.#mayKeep(queue)) return this.#yield(queue, false);
    // This holder was notified of an earlier holder's death, so the next holder need not be notified.
    if ((word & ABANDONED) !== 0) Atomics.and(this.#words, wordIndex(stripe), ~ABANDONED);
    this.#thread.handOvers.add(queue);
    return true;
  }

  /** The waiter to which this thread is handing the stripe over; undefined if there is no such waiter. */
  next(stripe: number): AsyncWaiter | undefined {
    const queue = this.#queues.get(stripe);
    return queue?.isHanded === true ? queue.first : undefined;
  }

  /** Completes a hand-over: notifies the first waiter that it now holds the stripe. */
  deliver(queue: LocalQueue): void {
    const waiter = queue.first;
    if (waiter === undefined) {
      if (!this.#releaseUncontended(queue)) this.#releaseInCore(queue, true);
      return;
    }
    if (!queue.armed) this.#arm(queue);
    const { abandoned } = queue;
    this.#thread.prepareEnd();
    queue.abandoned = false;
    this.#remove(queue, waiter);
    waiter.settle(abandoned ? GRANTED_LATE_WITH_ABANDONED : GRANTED_LATE);
  }

  /** Cancels a hand-over, because this thread is about to block. If this throws, nothing has changed. */
  takeBack(queue: LocalQueue): void {
    if (queue.first !== undefined) this.#yield(queue, true);
    else if (!this.#releaseUncontended(queue)) this.#releaseInCore(queue, true);
  }

  /** Call this when the addon has granted the stripe to the stand-in. */
  standInGranted(queue: LocalQueue): void {
    queue.standIn = undefined;
    queue.keptUntil = 0;
    if (queue.first !== undefined && !this.#arm(queue)) this.#appointStandIn(queue);
  }

  /** Call this when the stand-in has stopped waiting without a grant. */
  standInEnded(queue: LocalQueue): void {
    queue.standIn = undefined;
    this.replaceStandIn(queue);
  }

  /** Call this before the stand-in is cancelled. If this throws, nothing has changed. */
  replaceStandIn(queue: LocalQueue): void {
    if (queue.first === undefined || queue.armed || queue.handing) queue.standIn = undefined;
    else this.#appointStandIn(queue);
  }

  /** Removes a waiter that waits in JavaScript. If this throws, nothing has changed. */
  cancel(waiter: AsyncWaiter): void {
    this.#thread.prepareEnd();
    this.#remove(waiter.queue as LocalQueue, waiter);
  }

  /**
   * Call this before an acquisition that already holds its first `taken` stripes continues in the addon. The
   * addon may release these stripes and acquire them again later. So the queues of these stripes can no
   * longer rely on this thread's hold (preserves I9).
   */
  expose(stripes: readonly number[], taken: number): void {
    for (let i = 0; i < taken; i++) {
      const queue = this.#queues.get(stripes[i]!);
      if (queue === undefined || !queue.armed) continue;
      if (queue.first !== undefined && queue.standIn === undefined) this.#appointStandIn(queue);
      queue.armed = false;
    }
  }

  /** Returns the waiters of a stripe, in queue order. */
  waiting(stripe: number): LocalWait[] {
    return this.#queues.waiting(stripe, performance.now());
  }

  /**
   * Settles the waiters that have timed out. Returns the time, by `performance.now()`, when the next check is
   * due.
   */
  expire(now: number): number {
    const due: AsyncWaiter[] = [];
    this.sweep();
    this.#nextDue = Math.min(this.#nextDue, this.#queues.date(Math.ceil(now)));
    if (now >= this.#nextDue) this.#nextDue = this.#queues.collectDue(now, due);
    for (const waiter of due) {
      // Settling an earlier waiter may have run code that ended this waiter or moved it to the addon. In both
      // cases, this waiter no longer has a local ticket.
      if (waiter.ticket > LOCAL_TICKET) continue;
      const stripe = waiter.only;
      const holders = this.#thread.addon.holders(this.#table.number, stripe);
      this.cancel(waiter);
      waiter.settle({ status: 'timeout', stripe, holders });
    }
    return this.#nextDue;
  }

  /**
   * Removes unused queues. Adds the count of contended acquisitions to the table's metric if the count is
   * high.
   */
  sweep(): void {
    this.#queues.sweep();
    const counts = this.#counts;
    const last = this.#table.stripes + 1;
    if (counts === undefined || counts[last]! < MOST_CONTENDED) return;
    Atomics.add(this.#table.cells, METRIC_CELLS.contended, BigInt(counts[last]!));
    counts[last] = 0;
  }

  #openCounts(): Int32Array {
    const { number, stripes } = this.#table;
    // The memory is shared for the reason that `NativeTable.openShares` gives.
    const memory = new SharedArrayBuffer((stripes + 2) * Int32Array.BYTES_PER_ELEMENT);
    return this.#thread.addon.openLocals(number, new Int32Array(memory));
  }

  /** Sets LOCAL in the stripe's word. If the word does not have this thread's slot, returns false instead. */
  #arm(queue: LocalQueue): boolean {
    const index = wordIndex(queue.stripe);
    for (let word = Atomics.load(this.#words, index); (word & HOLDER) === this.#slot;) {
      const seen = Atomics.compareExchange(this.#words, index, word, word | LOCAL);
      if (seen === word) return (queue.armed = true);
      word = seen;
    }
    return false;
  }

  /** Frees the stripe and returns true, unless another thread waits for it. */
  #releaseUncontended(queue: LocalQueue): boolean {
    const held = this.#slot | LOCAL;
    if (Atomics.compareExchange(this.#words, wordIndex(queue.stripe), held, 0) !== held) return false;
    queue.armed = false;
    return true;
  }

  /**
   * Releases the stripe in the addon. `putOff`: true if the hand-over of the stripe to a waiter was
   * cancelled. In that case, the next holder must be notified of an earlier holder's death, because this
   * waiter was not notified.
   */
  #releaseInCore(queue: LocalQueue, putOff: boolean): true {
    this.#thread.release(this.#table.number, queue.stripe, EXCLUSIVE_MODE, putOff);
    queue.armed = false;
    queue.handing = false;
    queue.abandoned = false;
    return true;
  }

  /** Whether the stripe may stay in this thread although other threads wait (preserves I11). */
  #mayKeep(queue: LocalQueue): boolean {
    const now = performance.now();
    if (queue.keptUntil === 0)
      queue.keptUntil = now + this.#thread.addon.fairIn(this.#table.number, queue.stripe);
    return now < queue.keptUntil;
  }

  /**
   * Moves the first waiter to the addon and releases the stripe, so that the addon decides which thread gets
   * the stripe next.
   */
  #yield(queue: LocalQueue, putOff: boolean): true {
    this.#register(queue);
    queue.keptUntil = 0;
    return this.#releaseInCore(queue, putOff);
  }

  #startAsStandIn(queue: LocalQueue, waiter: AsyncWaiter): Outcome | undefined {
    this.#thread.list(this);
    const outcome = this.#thread.acquireAsync(this.#table.number, waiter, waiter.timeout, -1, 0);
    if (outcome !== undefined) return outcome;
    waiter.queue = queue;
    queue.standIn = waiter;
    return undefined;
  }

  /**
   * Makes the first waiter the stand-in. If the addon grants the stripe immediately, the grant is delivered
   * in a microtask.
   */
  #appointStandIn(queue: LocalQueue): void {
    this.#thread.handOvers.add(queue);
    queue.handing = false;
    this.#register(queue);
  }

  #register(queue: LocalQueue): void {
    const waiter = queue.first!;
    const { since, timeout } = waiter;
    const waited = since === 0 ? 0 : Math.max(0, performance.now() - since);
    const left = Math.max(1, timeout - waited);
    const arrival = LOCAL_TICKET - waiter.ticket;
    const counts = this.#counts!;
    const outcome = this.#thread.acquireAsync(this.#table.number, waiter, left, waited, arrival);
    // From here on, no function is called (preserves T1).
    if (outcome === undefined) {
      const { next } = waiter;
      queue.first = next;
      if (next === undefined) queue.last = undefined;
      else next.previous = undefined;
      waiter.next = undefined;
      counts[queue.stripe]!--;
      counts[this.#table.stripes]!--;
      this.#thread.pending--;
      queue.standIn = waiter;
    } else {
      queue.standIn = undefined;
      queue.abandoned = outcome.status === 'granted' && outcome.abandoned;
      queue.handing = true;
    }
  }

  #remove(queue: LocalQueue, waiter: AsyncWaiter): void {
    const counts = this.#counts!;
    queue.unlink(waiter);
    // From here on, no function is called (preserves T1).
    waiter.queue = undefined;
    waiter.ticket = -1;
    counts[queue.stripe]!--;
    counts[this.#table.stripes]!--;
    this.#thread.pending--;
  }
}
