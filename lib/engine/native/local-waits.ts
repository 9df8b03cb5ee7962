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

/** A long timeout counts from the next tick, which comes after this part of it, or after this many milliseconds. */
const TICKS = 256;
const LONGEST_TICK = 10;
/** This many acquisitions that had to wait are counted here before the table's cell gets them. */
const MOST_CONTENDED = 2 ** 20;
/** All bits of a word but its flags. */
const HOLDER = SHARED | HOLDER_MASK;

/** A table, as what waits in JavaScript needs it. */
interface LocalTable {
  /** The addon's number for it. */
  readonly number: number;
  readonly stripes: number;
  readonly cells: BigInt64Array;
  /** The lock's own words. */
  readonly words: Int32Array;
}

/**
 * How the tasks of one thread pass a lock's stripes on to each other without the addon: the release of one resolves the
 * promise of the next, and the word stays as it is. So of the acquisitions of one thread that wait for one stripe,
 * exclusively and for no other, at most one waits in the addon. After lock cohorting (Dice, Marathe, Shavit 2012), with
 * threads for NUMA nodes. Invariants, after those in `native/core/table.h`:
 *
 * I8   LOCAL stands only in a word that has a slot. Only the slot's thread sets it, and only while a guard of this thread
 *      holds the stripe, or what is handed over within the thread. So the fast path cannot give the stripe back, and its
 *      release comes to {@link release}. Whatever takes the slot out of the word clears LOCAL with it.
 * I9   While a queue has waiters, the thread holds its stripe with LOCAL set (`armed`), or is about to deliver it to the
 *      first (`handing`), or another one of the thread waits in the addon before them all (`standIn`). When the stand-in
 *      ends, the next takes its place before other code runs.
 * I10  A thread's exclusive acquisitions that wait for a stripe are granted in order of arrival, but where the addon puts
 *      one off. The ticket of each says how many of other threads came before it; so it has its place among these, too,
 *      when it becomes the stand-in. While some wait in the addon, for a share of the stripe or for several stripes of the
 *      lock, those that come later wait there behind them.
 * I11  While others wait, a stripe stays in the thread until their first one is the next to be served by the addon's
 *      clock (`kFairness` in `native/core/table.h`). Then the first waiter of the queue becomes the stand-in, and the
 *      stripe goes to whom the addon gives it.
 *
 * If the thread ends between any two lines, its waiters and counts end with its memory; the addon frees what its slot holds
 * and takes its stand-ins out. If a stack overflow ends any call, these invariants hold then (keeps T1).
 */
export class LocalWaits {
  readonly #table: LocalTable;
  readonly #thread: NativeThread;
  readonly #words: Int32Array;
  readonly #slot: number;
  readonly #queues = new LocalQueues();
  /**
   * Counts what waits in this thread's JavaScript where the addon reads it for `stats()` and `inspect()` in any thread
   * (`openLocals` in `native/core/membership.h`): for each stripe, then in all, then all that ever waited. Only this thread
   * writes there, and so needs no atomics. If the thread ends, the counts end with it.
   */
  #counts: Int32Array | undefined = undefined;
  /**
   * How many acquisitions of this thread wait in the addon, but for stand-ins: for each stripe those that wait for no other,
   * then those that wait for several.
   */
  #elsewhere: Int32Array | undefined = undefined;
  /** The thread looks at what waits here; see {@link NativeThread.list}. */
  isListed = false;
  /** No waiter with a time of arrival is due earlier. */
  #nextDue = Infinity;

  constructor(table: LocalTable, thread: NativeThread) {
    this.#table = table;
    this.#thread = thread;
    this.#words = table.words;
    this.#slot = thread.slot;
  }

  /** Decides at once, or returns undefined. The acquisition is exclusive, of one stripe, and has time. */
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
    // From here on this calls nothing (keeps T1).
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

  /** The same for any acquisition, in the addon. */
  startElsewhere(waiter: AsyncWaiter): Outcome | undefined {
    const counts = (this.#elsewhere ??= new Int32Array(this.#table.stripes + 1));
    const place = this.#placeElsewhere(waiter);
    const outcome = this.#thread.acquireAsync(this.#table.number, waiter, waiter.timeout, -1, 0);
    // From here on this calls nothing (keeps T1).
    if (outcome === undefined) {
      waiter.queue = this;
      counts[place]!++;
    }
    return outcome;
  }

  /** Such an acquisition is about to wait no more. If this throws, nothing has changed. */
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

  /** True: the stripe was given to the next waiter, or back. False: the addon is to do it. */
  release(stripe: number): boolean {
    const queue = this.#queues.get(stripe);
    if (queue === undefined || !queue.armed) return false;
    // The thread holds the stripe, which nobody else can change. Other flags may be older, so whoever gives the stripe back
    // compares them again. V8 does not inline `Atomics.load`.
    const word = this.#words[wordIndex(stripe)]!;
    // Nobody but this class can give back what is being handed over.
    if ((word & HOLDER) !== this.#slot || queue.handing) return queue.handing;
    if (queue.standIn !== undefined) return this.#giveBack(queue, false);
    if (queue.first === undefined) return this.#free(queue) || this.#giveBack(queue, false);
    if (this.#thread.blocked) return this.#yield(queue, false);
    if ((word & QUEUED) === 0) queue.keptUntil = 0;
    else if (!this.#mayKeep(queue)) return this.#yield(queue, false);
    // Its holder was told, and has dealt with it.
    if ((word & ABANDONED) !== 0) Atomics.and(this.#words, wordIndex(stripe), ~ABANDONED);
    this.#thread.handOvers.add(queue);
    return true;
  }

  /** Who is handed the stripe next in this thread. */
  next(stripe: number): AsyncWaiter | undefined {
    const queue = this.#queues.get(stripe);
    return queue?.isHanded === true ? queue.first : undefined;
  }

  /** The stripe was handed over to the first waiter, whose turn to learn of it is now. */
  deliver(queue: LocalQueue): void {
    const waiter = queue.first;
    if (waiter === undefined) {
      if (!this.#free(queue)) this.#giveBack(queue, true);
      return;
    }
    if (!queue.armed) this.#arm(queue);
    const { abandoned } = queue;
    this.#thread.prepareEnd();
    queue.abandoned = false;
    this.#remove(queue, waiter);
    waiter.settle(abandoned ? GRANTED_LATE_WITH_ABANDONED : GRANTED_LATE);
  }

  /** This thread is about to block: the hand-over is put off. If this throws, nothing has changed. */
  takeBack(queue: LocalQueue): void {
    if (queue.first !== undefined) this.#yield(queue, true);
    else if (!this.#free(queue)) this.#giveBack(queue, true);
  }

  /** The addon has granted the stripe to the stand-in. */
  standInGranted(queue: LocalQueue): void {
    queue.standIn = undefined;
    queue.keptUntil = 0;
    if (queue.first !== undefined && !this.#arm(queue)) this.#appointStandIn(queue);
  }

  /** The stand-in waits no more, and was not granted the stripe. */
  standInEnded(queue: LocalQueue): void {
    queue.standIn = undefined;
    this.replaceStandIn(queue);
  }

  /** The stand-in is about to be removed. If this throws, nothing has changed. */
  replaceStandIn(queue: LocalQueue): void {
    if (queue.first === undefined || queue.armed || queue.handing) queue.standIn = undefined;
    else this.#appointStandIn(queue);
  }

  /** Removes a waiter with a ticket of {@link LocalQueues}. If this throws, nothing has changed. */
  cancel(waiter: AsyncWaiter): void {
    this.#thread.prepareEnd();
    this.#remove(waiter.queue as LocalQueue, waiter);
  }

  /** Before an acquisition that has taken stripes continues in the addon, which may put it off (keeps I8). */
  expose(stripes: readonly number[], taken: number): void {
    for (let i = 0; i < taken; i++) {
      const queue = this.#queues.get(stripes[i]!);
      if (queue === undefined || !queue.armed) continue;
      if (queue.first !== undefined && queue.standIn === undefined) this.#appointStandIn(queue);
      queue.armed = false;
    }
  }

  /** What waits in a queue, in order. */
  waiting(stripe: number): LocalWait[] {
    return this.#queues.waiting(stripe, performance.now());
  }

  /** Settles those whose time is over. Returns when to look again, on the clock of `performance.now()`. */
  expire(now: number): number {
    const due: AsyncWaiter[] = [];
    this.sweep();
    this.#nextDue = Math.min(this.#nextDue, this.#queues.date(Math.ceil(now)));
    if (now >= this.#nextDue) this.#nextDue = this.#queues.collectDue(now, due);
    for (const waiter of due) {
      // Settling one may run other code, which may end others.
      if (waiter.ticket > LOCAL_TICKET) continue;
      const stripe = waiter.only;
      const holders = this.#thread.addon.holders(this.#table.number, stripe);
      this.cancel(waiter);
      waiter.settle({ status: 'timeout', stripe, holders });
    }
    return this.#nextDue;
  }

  /** Forgets what is not needed any more, and moves a high count of all that ever waited to the table's cell. */
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
    // Shared memory, for the same reason as in `NativeTable.openShares`.
    const memory = new SharedArrayBuffer((stripes + 2) * Int32Array.BYTES_PER_ELEMENT);
    return this.#thread.addon.openLocals(number, new Int32Array(memory));
  }

  /** Sets LOCAL. False: no guard of this thread holds the stripe. */
  #arm(queue: LocalQueue): boolean {
    const index = wordIndex(queue.stripe);
    for (let word = Atomics.load(this.#words, index); (word & HOLDER) === this.#slot;) {
      const seen = Atomics.compareExchange(this.#words, index, word, word | LOCAL);
      if (seen === word) return (queue.armed = true);
      word = seen;
    }
    return false;
  }

  /** Gives the stripe back if no other thread wants it. */
  #free(queue: LocalQueue): boolean {
    const held = this.#slot | LOCAL;
    if (Atomics.compareExchange(this.#words, wordIndex(queue.stripe), held, 0) !== held) return false;
    queue.armed = false;
    return true;
  }

  /** Gives it back in the addon. `putOff`: for a waiter that has not had it, so that the next is told of a death, too. */
  #giveBack(queue: LocalQueue, putOff: boolean): true {
    this.#thread.release(this.#table.number, queue.stripe, EXCLUSIVE_MODE, putOff);
    queue.armed = false;
    queue.handing = false;
    queue.abandoned = false;
    return true;
  }

  /** While other threads wait: whether the stripe may stay in this one (keeps I11). */
  #mayKeep(queue: LocalQueue): boolean {
    const now = performance.now();
    if (queue.keptUntil === 0)
      queue.keptUntil = now + this.#thread.addon.fairIn(this.#table.number, queue.stripe);
    return now < queue.keptUntil;
  }

  /** Lets the addon decide who is next: the first waiter waits there from now on, and the stripe is given back. */
  #yield(queue: LocalQueue, putOff: boolean): true {
    this.#register(queue);
    queue.keptUntil = 0;
    return this.#giveBack(queue, putOff);
  }

  #startAsStandIn(queue: LocalQueue, waiter: AsyncWaiter): Outcome | undefined {
    this.#thread.list(this);
    const outcome = this.#thread.acquireAsync(this.#table.number, waiter, waiter.timeout, -1, 0);
    if (outcome !== undefined) return outcome;
    waiter.queue = queue;
    queue.standIn = waiter;
    return undefined;
  }

  /** The first waiter becomes the stand-in. If the addon grants it the stripe at once, that is to be delivered. */
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
    // From here on this calls nothing (keeps T1).
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
    // From here on this calls nothing (keeps T1).
    waiter.queue = undefined;
    waiter.ticket = -1;
    counts[queue.stripe]!--;
    counts[this.#table.stripes]!--;
    this.#thread.pending--;
  }
}
