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
 * A long timeout starts at the thread's next tick, which comes within this fraction of the timeout, and within `LONGEST_TICK`
 * milliseconds.
 */
const TICKS = 256;
const LONGEST_TICK = 10;
/** When the local count of contended acquisitions reaches this number, it moves to the table's cell. */
const MOST_CONTENDED = 2 ** 20;
/** All bits of a word except its flags. */
const HOLDER = SHARED | HOLDER_MASK;

/** The parts of a table that local waits use. */
interface LocalTable {
  /** The addon's number of the table. */
  readonly number: number;
  readonly stripes: number;
  readonly cells: BigInt64Array;
  /** The words of this lock. */
  readonly words: Int32Array;
}

/**
 * How the tasks of one thread pass a lock's stripes to each other without the addon: a release resolves the promise of
 * the next task, and the word stays unchanged. Of a thread's exclusive acquisitions of a single stripe, at most one waits
 * in the addon. This follows lock cohorting (Dice, Marathe, Shavit 2012), with threads in place of NUMA nodes. The
 * invariants continue the list in `native/core/table/table.h`:
 *
 * I8   LOCAL appears only in a word with a slot. Only the slot's thread sets it, and only while the stripe is held by a
 *      guard of this thread, or is being handed over within the thread. So the fast path cannot release the stripe, and
 *      {@link release} handles it. Each change that removes the slot from the word also clears LOCAL.
 * I9   While a queue has waiters, one of three conditions holds. The thread holds the stripe with LOCAL set (`armed`), or
 *      it is about to deliver the stripe to the first waiter (`handing`), or another acquisition of the thread waits in
 *      the addon ahead of them (`standIn`). When the stand-in ends, the next waiter replaces it before other code runs.
 * I10  A thread's exclusive acquisitions of a stripe are granted in arrival order, unless the addon puts one off. Each
 *      ticket records how many acquisitions of other threads arrived earlier. So a waiter that becomes the stand-in
 *      gets its place among them. While acquisitions of the thread wait in the addon for a share of the stripe, or for
 *      several stripes of the lock, later ones wait there behind them.
 * I11  While other threads wait, a stripe stays in the thread until the first of them must be served by the addon's
 *      clock (`kBargingPeriod` in `native/core/base/sync.h`). Then the first waiter of the queue becomes the stand-in, and the
 *      addon decides which thread gets the stripe.
 *
 * If the thread ends between any two lines, its waiters and counts disappear with its memory. The addon frees the
 * stripes of its slot and removes its stand-ins. The invariants also hold if a call throws (keeps T1).
 */
export class LocalWaits {
  readonly #table: LocalTable;
  readonly #thread: NativeThread;
  readonly #words: Int32Array;
  readonly #slot: number;
  readonly #queues = new LocalQueues();
  /**
   * The counts of waiters in this thread's JavaScript, read by the addon for `stats()` and `inspect()` of any thread
   * (`openLocals` in `native/core/table/membership.h`): one per stripe, then the total, then the total that ever waited. Only
   * this thread writes them, so it needs no atomics. They disappear with the thread.
   */
  #counts: Int32Array | undefined = undefined;
  /**
   * Counts of this thread's acquisitions that wait in the addon, except stand-ins. Each stripe has the count of acquisitions
   * that wait for no other stripe. The last number counts those that wait for several.
   */
  #elsewhere: Int32Array | undefined = undefined;
  /** Whether the thread checks the waiters of this object; see {@link NativeThread.list}. */
  isListed = false;
  /** No waiter whose wait has a start time is due earlier. */
  #nextDue = Infinity;

  constructor(table: LocalTable, thread: NativeThread) {
    this.#table = table;
    this.#thread = thread;
    this.#words = table.words;
    this.#slot = thread.slot;
  }

  /**
   * Starts an exclusive acquisition of one stripe with a positive timeout. Returns its outcome, or undefined if it
   * waits.
   */
  start(waiter: AsyncWaiter): Outcome | undefined {
    const stripe = waiter.only;
    const thread = this.#thread;
    if (thread.blocked || this.#waitElsewhere(stripe)) return this.startElsewhere(waiter);
    const queue = this.#queues.get(stripe) ?? this.#queues.open(this, stripe);
    if (!queue.isLookedAfter && !this.#arm(queue)) return this.#startAsStandIn(queue, waiter);
    const counts = (this.#counts ??= this.#openCounts());
    const { timeout } = waiter;
    const isLong = timeout >= LONG_TIMEOUT;
    const since = isLong ? 0 : Math.ceil(performance.now());
    if (!isLong) this.#nextDue = Math.min(this.#nextDue, since + timeout);
    thread.ringWithin(isLong ? Math.min(timeout / TICKS, LONGEST_TICK) : timeout);
    thread.list(this);
    thread.stayAlive();
    // From here on, no function is called (keeps T1).
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

  /** Starts any acquisition in the addon. */
  startElsewhere(waiter: AsyncWaiter): Outcome | undefined {
    const counts = (this.#elsewhere ??= new Int32Array(this.#table.stripes + 1));
    const place = this.#placeElsewhere(waiter);
    const outcome = this.#thread.acquireAsync(this.#table.number, waiter, waiter.timeout, -1, 0);
    // From here on, no function is called (keeps T1).
    if (outcome === undefined) {
      waiter.queue = this;
      counts[place]!++;
    }
    return outcome;
  }

  /**
   * Call before an acquisition started by {@link startElsewhere} ends its wait. If this throws, nothing has changed.
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

  /** True if the stripe was given to the next waiter or freed. False if the addon must release it. */
  release(stripe: number): boolean {
    const queue = this.#queues.get(stripe);
    if (queue === undefined || !queue.armed) return false;
    // A plain read, because V8 does not inline `Atomics.load`. Only this thread can remove the slot from the word. The flags
    // may be outdated, so every change of the word compares them again.
    const word = this.#words[wordIndex(stripe)]!;
    // Only this class may release a stripe that is being handed over.
    if ((word & HOLDER) !== this.#slot || queue.handing) return queue.handing;
    if (queue.standIn !== undefined) return this.#releaseInCore(queue, false);
    if (queue.first === undefined)
      return this.#releaseUncontended(queue) || this.#releaseInCore(queue, false);
    if (this.#thread.blocked) return this.#yield(queue, false);
    if ((word & QUEUED) === 0) queue.keptUntil = 0;
    else if (!this.#mayKeep(queue)) return this.#yield(queue, false);
    // The holder was notified of the death, and has dealt with it.
    if ((word & ABANDONED) !== 0) Atomics.and(this.#words, wordIndex(stripe), ~ABANDONED);
    this.#thread.handOvers.add(queue);
    return true;
  }

  /** The waiter in this thread that the stripe is being handed to. */
  next(stripe: number): AsyncWaiter | undefined {
    const queue = this.#queues.get(stripe);
    return queue?.isHanded === true ? queue.first : undefined;
  }

  /** Delivers a stripe to the first waiter, to which it was handed over. */
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

  /** Cancels the hand-over, because this thread is about to block. If this throws, nothing has changed. */
  takeBack(queue: LocalQueue): void {
    if (queue.first !== undefined) this.#yield(queue, true);
    else if (!this.#releaseUncontended(queue)) this.#releaseInCore(queue, true);
  }

  /** Call when the addon has granted the stripe to the stand-in. */
  standInGranted(queue: LocalQueue): void {
    queue.standIn = undefined;
    queue.keptUntil = 0;
    if (queue.first !== undefined && !this.#arm(queue)) this.#appointStandIn(queue);
  }

  /** Call when the stand-in has ended without getting the stripe. */
  standInEnded(queue: LocalQueue): void {
    queue.standIn = undefined;
    this.replaceStandIn(queue);
  }

  /** Call before the stand-in is removed. If this throws, nothing has changed. */
  replaceStandIn(queue: LocalQueue): void {
    if (queue.first === undefined || queue.armed || queue.handing) queue.standIn = undefined;
    else this.#appointStandIn(queue);
  }

  /** Removes a waiter with a ticket of {@link LocalQueues}. If this throws, nothing has changed. */
  cancel(waiter: AsyncWaiter): void {
    this.#thread.prepareEnd();
    this.#remove(waiter.queue as LocalQueue, waiter);
  }

  /** Call before an acquisition that has taken stripes continues in the addon, which may put it off (keeps I8). */
  expose(stripes: readonly number[], taken: number): void {
    for (let i = 0; i < taken; i++) {
      const queue = this.#queues.get(stripes[i]!);
      if (queue === undefined || !queue.armed) continue;
      if (queue.first !== undefined && queue.standIn === undefined) this.#appointStandIn(queue);
      queue.armed = false;
    }
  }

  /** The waiters of a stripe, in order. */
  waiting(stripe: number): LocalWait[] {
    return this.#queues.waiting(stripe, performance.now());
  }

  /** Settles waiters that timed out. Returns when the next check is due, by `performance.now()`. */
  expire(now: number): number {
    const due: AsyncWaiter[] = [];
    this.sweep();
    this.#nextDue = Math.min(this.#nextDue, this.#queues.date(Math.ceil(now)));
    if (now >= this.#nextDue) this.#nextDue = this.#queues.collectDue(now, due);
    for (const waiter of due) {
      // Settling a waiter may run other code, which may end other waiters.
      if (waiter.ticket > LOCAL_TICKET) continue;
      const stripe = waiter.only;
      const holders = this.#thread.addon.holders(this.#table.number, stripe);
      this.cancel(waiter);
      waiter.settle({ status: 'timeout', stripe, holders });
    }
    return this.#nextDue;
  }

  /** Removes unused queues, and moves a high count of contended acquisitions to the table's cell. */
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
    // Shared memory, for the reason given in `NativeTable.openShares`.
    const memory = new SharedArrayBuffer((stripes + 2) * Int32Array.BYTES_PER_ELEMENT);
    return this.#thread.addon.openLocals(number, new Int32Array(memory));
  }

  /** Sets LOCAL. False if no guard of this thread holds the stripe. */
  #arm(queue: LocalQueue): boolean {
    const index = wordIndex(queue.stripe);
    for (let word = Atomics.load(this.#words, index); (word & HOLDER) === this.#slot;) {
      const seen = Atomics.compareExchange(this.#words, index, word, word | LOCAL);
      if (seen === word) return (queue.armed = true);
      word = seen;
    }
    return false;
  }

  /** Frees the stripe, unless another thread waits for it. */
  #releaseUncontended(queue: LocalQueue): boolean {
    const held = this.#slot | LOCAL;
    if (Atomics.compareExchange(this.#words, wordIndex(queue.stripe), held, 0) !== held) return false;
    queue.armed = false;
    return true;
  }

  /**
   * Releases the stripe in the addon. `putOff`: a waiter did not get the stripe after all, so the next holder must also
   * be notified of a death.
   */
  #releaseInCore(queue: LocalQueue, putOff: boolean): true {
    this.#thread.release(this.#table.number, queue.stripe, EXCLUSIVE_MODE, putOff);
    queue.armed = false;
    queue.handing = false;
    queue.abandoned = false;
    return true;
  }

  /** Whether the stripe may stay in this thread although other threads wait (keeps I11). */
  #mayKeep(queue: LocalQueue): boolean {
    const now = performance.now();
    if (queue.keptUntil === 0)
      queue.keptUntil = now + this.#thread.addon.fairIn(this.#table.number, queue.stripe);
    return now < queue.keptUntil;
  }

  /** Moves the first waiter to the addon and releases the stripe, so that the addon decides which thread is next. */
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

  /** Makes the first waiter the stand-in. If the addon grants it the stripe at once, the grant is delivered later. */
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
    // From here on, no function is called (keeps T1).
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
    // From here on, no function is called (keeps T1).
    waiter.queue = undefined;
    waiter.ticket = -1;
    counts[queue.stripe]!--;
    counts[this.#table.stripes]!--;
    this.#thread.pending--;
  }
}
