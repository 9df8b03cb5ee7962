import { DeadlineTimer } from '../../common/deadline-timer.js';
import { defer } from '../../common/host.js';
import type { AsyncWaiter, Outcome, Request } from '../contract/engine.js';
import { CONTENDED_CELL, WAITING_CELL } from '../contract/layout.js';
import { type GivesWay, joinGivesWay, leaveGivesWay, recover } from './blocking.js';
import { Delivery } from './delivery.js';
import { clock, makeRoom } from './host.js';
import { LaneMember } from './lane-member.js';
import { LocalQueue, Pending } from './local-queue.js';
import { patience } from './patience.js';
import { CALLED, type Cause, LOOKS, type Stripes } from './stripes.js';

/**
 * For so long, in milliseconds, a stripe that others wait for may go from one waiter of this thread to the next
 * without the detour through the event loop.
 */
const LONGEST_KEPT = 1;

/** What the waits need of the table that they belong to. */
export interface AsyncWaitsOwner {
  readonly cells: BigInt64Array;
  timedOut(stripe: number): Outcome;
}

/**
 * The acquisitions of one thread and lock that wait without blocking the thread.
 *
 * An acquisition takes its stripes in ascending order and waits in the queue of the first that it cannot have;
 * it keeps those before. A queue, not each waiter, waits in the stripe's async lane ({@link LaneMember}).
 *
 * I6  A queue with waiters sleeps in its lane or watches its claim, with QUEUED set; or this table holds its stripe
 *     exclusively, with QUEUED set, so that the release comes to {@link release}; or the thread is blocked in a sync
 *     wait, at whose end {@link resume} arms it.
 * I7  A stripe that was taken for an acquisition that is not settled can be given back at any time.
 *
 * A stack overflow can end any call that user code makes here. I8 holds for what is changed, and what then remains to be
 * done is done from a microtask: until then, I6 may not hold. Each step can be done again.
 */
export class AsyncWaits implements GivesWay {
  readonly #stripes: Stripes;
  readonly #owner: AsyncWaitsOwner;
  readonly #members: LaneMember;
  readonly #queues = new Map<number, LocalQueue>();
  readonly #byWaiter = new Map<AsyncWaiter, Pending>();
  /** For deadlines and looks; keeps the event loop alive while acquisitions are pending. */
  readonly #timer = new DeadlineTimer<Pending>(clock, () => this.#onTimer(), false);
  readonly #delivery = new Delivery<Pending>((entry) => this.#deliver(entry));
  /** Those that wait and hold some of their stripes. */
  readonly #partial = new Set<Pending>();
  /** What a stack overflow has left undone. */
  readonly #unfinished = new Set<Pending | LocalQueue>();
  /** While the thread is blocked: what it put off. */
  #aside: Pending[] = [];
  readonly #unarmed = new Set<LocalQueue>();
  #blocked = false;
  #joined = false;
  #lookedAt = 0;

  constructor(stripes: Stripes, owner: AsyncWaitsOwner) {
    this.#stripes = stripes;
    this.#owner = owner;
    this.#members = new LaneMember(stripes, (queue) => {
      recover();
      this.#pump(queue, CALLED);
      this.#updateJoined();
    });
  }

  /**
   * Goes on with an acquisition that could not take `request.stripes[request.taken]`. True: has taken all at once. Where it
   * throws, the caller still has what it had taken, and no more when the microtasks have run.
   */
  start(request: Request, waiter: AsyncWaiter): boolean {
    makeRoom();
    const entry = new Pending(waiter, request, clock());
    try {
      if (this.#advance(entry, false)) {
        this.#updateJoined();
        return true;
      }
      const { cells } = this.#owner;
      Atomics.add(cells, CONTENDED_CELL, 1n);
      Atomics.add(cells, WAITING_CELL, 1n);
      entry.isCounted = true;
      this.#byWaiter.set(waiter, entry);
      this.#updateJoined();
      this.#timer.keepAlive(true);
      this.#setTimer(entry.deadline, entry.since);
      this.#timer.add(entry);
      return false;
    } catch (error) {
      entry.isGivenUp = true;
      entry.kept = request.taken;
      this.#unfinished.add(entry);
      defer(this.#finish, undefined);
      throw error;
    }
  }

  cancel(waiter: AsyncWaiter): boolean {
    const entry = this.#byWaiter.get(waiter);
    if (entry === undefined || entry.isGivenUp) return false;
    this.#giveUp(entry);
    return true;
  }

  /** Gives a stripe back: to this thread's next waiter, or to all. Where it throws, the stripe is still held. */
  release(stripe: number, shared: boolean): void {
    makeRoom();
    const stripes = this.#stripes;
    if (!shared && !stripes.isOwn(stripe)) return;
    const queue = this.#queues.get(stripe);
    const next = queue?.first;
    if (queue === undefined || next === undefined || this.#blocked) {
      if (queue !== undefined && this.#blocked) this.#unarmed.add(queue);
      stripes.release(stripe, shared);
    } else if (queue.got === 'no' && this.#mayKeep(queue) && stripes.handOver(stripe, shared, next.shared)) {
      queue.got = next.shared ? 'shared' : 'exclusive';
      try {
        this.#pump(queue, LOOKS);
      } catch {
        this.#unfinished.add(queue);
        defer(this.#finish, undefined);
      }
    } else {
      queue.keptSince = 0;
      this.#pump(queue, undefined);
      stripes.release(stripe, shared);
    }
  }

  *waiting(): Generator<Pending> {
    for (const queue of this.#queues.values()) {
      for (let entry = queue.first; entry !== undefined; entry = entry.next) yield entry;
    }
  }

  get holdsAny(): boolean {
    return this.#partial.size > 0 || !this.#delivery.isEmpty;
  }

  withdrawClaims(): void {
    this.#blocked = true;
    for (const queue of this.#members.heads) {
      this.#unarmed.add(queue);
      this.#members.withdrawClaim(queue);
    }
  }

  giveBack(): void {
    makeRoom();
    this.#blocked = true;
    const aside = this.#aside;
    const first = aside.length;
    // First all are noted, with no call in between (I8).
    for (const entry of this.#partial) {
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
    const { asleep } = this.#members;
    for (const { stripe } of asleep) this.#stripes.relay(stripe);
    return asleep.size > 0;
  }

  resume(): void {
    makeRoom();
    const aside = this.#aside;
    if (aside.length > 1) aside.sort((a, b) => a.since - b.since);
    this.#blocked = false;
    // Last first, as each goes to the front of its queue.
    for (let entry; (entry = aside.pop()) !== undefined;) {
      // Another outcome may have come first.
      if (entry.state !== 'aside') continue;
      entry.state = 'waiting';
      try {
        entry.queue?.remove(entry);
        // Its time goes on: it had been granted, and now is not.
        if (entry.place < 0) this.#timer.add(entry);
        if (this.#advance(entry, true)) this.#makeReady(entry);
      } catch {
        this.#unfinished.add(entry);
        defer(this.#finish, undefined);
      }
    }
    for (const queue of this.#unarmed) {
      // Where it fails, this is called again.
      this.#pump(queue, LOOKS);
      this.#unarmed.delete(queue);
    }
  }

  leave(): void {
    this.withdrawClaims();
    this.giveBack();
    for (const entry of this.#byWaiter.values()) {
      entry.queue?.remove(entry);
      this.#uncount(entry);
    }
    this.#byWaiter.clear();
    this.#members.leave();
  }

  /** Takes what can be had of a stripe for those who wait, and sees to it that the rest is called (I6). */
  #pump(queue: LocalQueue, cause: Cause | undefined): void {
    let may = cause;
    for (let head; (head = queue.first) !== undefined;) {
      if (queue.got === 'no') {
        if (!this.#members.obtain(queue, head, may)) return;
        queue.keptSince = 0;
      }
      if ((queue.got === 'shared') !== head.shared) {
        // The one that it was taken for has left.
        this.#giveBackGot(queue);
        may = CALLED;
        continue;
      }
      const { shared } = head;
      this.#took(queue, head);
      // Its release, which is this table's, goes on with the rest.
      if (!shared) {
        if (queue.first === undefined) break;
        return;
      }
      may = CALLED;
    }
    if (queue.got !== 'no') this.#giveBackGot(queue);
    this.#emptied(queue);
  }

  #giveBackGot(queue: LocalQueue): void {
    // Where it throws, nothing has changed.
    this.#stripes.release(queue.stripe, queue.got === 'shared');
    queue.got = 'no';
  }

  /** Does what a stack overflow has left undone. Where one is caught, there is room for no call but that of `defer`. */
  readonly #finish = (): void => {
    recover();
    for (const what of this.#unfinished) {
      this.#unfinished.delete(what);
      if (what instanceof LocalQueue) {
        // A head may have left undone what its call was for.
        this.#stripes.callAgain(what.stripe);
        this.#pump(what, LOOKS);
      } else if (what.isGivenUp) {
        this.#drop(what);
      } else {
        this.#goOn(what);
      }
    }
    this.#updateJoined();
  };

  /** Goes on with an acquisition wherever it was left. */
  #goOn(entry: Pending): void {
    const { state, queue } = entry;
    if (state === 'ready') this.#delivery.schedule();
    if (state !== 'waiting') return;
    if (queue !== undefined) this.#pump(queue, LOOKS);
    else if (this.#advance(entry, true)) this.#makeReady(entry);
  }

  /** Nobody waits here any more: others come first, and QUEUED may be in vain. */
  #emptied(queue: LocalQueue): void {
    if (queue.asleep) this.#stripes.idle.add(queue.stripe);
    this.#members.rest(queue);
    if (queue.claim !== 0) this.#members.withdrawClaim(queue);
    else this.#stripes.relay(queue.stripe);
    if (!queue.asleep && !queue.watchesClaim) this.#queues.delete(queue.stripe);
  }

  /** The head of a queue has its stripe. */
  #took(queue: LocalQueue, head: Pending): void {
    makeRoom();
    const { shared } = head;
    queue.remove(head);
    head.taken++;
    queue.got = 'no';
    try {
      this.#stripes.entered(queue.stripe, shared);
      if (this.#advance(head, false)) this.#makeReady(head);
    } catch {
      this.#unfinished.add(head);
      defer(this.#finish, undefined);
    }
  }

  /** Takes stripes up to the first that cannot be had, and waits there. True: has all. */
  #advance(entry: Pending, first: boolean): boolean {
    const stripes = this.#stripes;
    const { shared } = entry;
    for (let stripe; (stripe = entry.stripes[entry.taken]) !== undefined;) {
      let queue = this.#queues.get(stripe);
      const isEmpty = queue?.first === undefined;
      if (isEmpty && stripes.arrive(stripe, shared)) {
        entry.taken++;
        continue;
      }
      if (isEmpty && stripes.intrude(stripe, shared)) {
        entry.taken++;
        stripes.entered(stripe, shared);
        continue;
      }
      if (queue === undefined) this.#queues.set(stripe, (queue = new LocalQueue(stripe)));
      stripes.idle.delete(stripe);
      queue.wasIdle = false;
      if (first) queue.unshift(entry);
      else queue.push(entry);
      if (entry.taken > 0) this.#partial.add(entry);
      if (!(isEmpty || first) || queue.got !== 'no' || !this.#members.obtain(queue, entry, undefined))
        return false;
      queue.remove(entry);
      entry.taken++;
      queue.got = 'no';
      stripes.entered(stripe, shared);
      if (queue.first === undefined) {
        if (queue.asleep) stripes.idle.add(stripe);
        this.#members.rest(queue);
      }
    }
    this.#partial.delete(entry);
    return true;
  }

  #makeReady(entry: Pending): void {
    makeRoom();
    if (entry.state !== 'ready') {
      this.#delivery.add(entry);
      entry.state = 'ready';
    }
    this.#delivery.schedule();
  }

  #deliver(entry: Pending): boolean {
    if (entry.state !== 'ready' || entry.isGivenUp) return false;
    this.#forget(entry);
    entry.waiter.settle({ status: 'granted', abandoned: false });
    return true;
  }

  #forget(entry: Pending): void {
    entry.state = 'settled';
    this.#byWaiter.delete(entry.waiter);
    this.#timer.remove(entry);
    this.#partial.delete(entry);
    this.#uncount(entry);
    this.#updateJoined();
    // Lets the thread end; where it goes on, the timer can be used again.
    if (this.#byWaiter.size === 0) this.#timer.keepAlive(false);
  }

  #uncount(entry: Pending): void {
    if (entry.isCounted) Atomics.sub(this.#owner.cells, WAITING_CELL, 1n);
    entry.isCounted = false;
  }

  #updateJoined(): void {
    const joins = this.#byWaiter.size > 0 || this.#members.asleep.size > 0;
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
      this.#unfinished.add(entry);
      defer(this.#finish, undefined);
    }
  }

  /** Takes an acquisition out; it holds nothing then. */
  #drop(entry: Pending): void {
    makeRoom();
    const { queue } = entry;
    const wasFirst = queue?.first === entry;
    // From here on, and if it fails, this is nobody's; the queue is looked after in any case.
    if (wasFirst) this.#unfinished.add(queue);
    queue?.remove(entry);
    this.#forget(entry);
    this.#releaseTaken(entry);
    if (!wasFirst) return;
    this.#unfinished.delete(queue);
    // Those behind may be let in where it was not: readers behind a writer.
    try {
      this.#pump(queue, LOOKS);
      this.#stripes.relay(queue.stripe);
    } catch {
      this.#unfinished.add(queue);
      defer(this.#finish, undefined);
    }
  }

  #releaseTaken(entry: Pending): void {
    while (entry.taken > entry.kept) {
      this.release(entry.stripes[entry.taken - 1]!, entry.shared);
      entry.taken--;
    }
    this.#partial.delete(entry);
  }

  #mayKeep(queue: LocalQueue): boolean {
    if (!this.#stripes.othersWait(queue.stripe, queue.claim, queue.asleep)) return true;
    const now = clock();
    if (queue.keptSince === 0) queue.keptSince = now;
    return now - queue.keptSince < LONGEST_KEPT;
  }

  /** For the deadline, or the next look at the queues where that comes before. */
  #setTimer(deadline: number, now: number): void {
    this.#timer.ringBy(Math.min(deadline, now + patience.eventLoop));
  }

  #onTimer(): void {
    try {
      recover();
      this.#onTime(clock());
    } finally {
      // Without waiters, too: to end the sleeps that nobody needs.
      if (this.#byWaiter.size > 0 || this.#queues.size > 0)
        this.#setTimer(this.#timer.first?.deadline ?? Infinity, clock());
    }
  }

  #onTime(now: number): void {
    if (now - this.#lookedAt >= patience.eventLoop) {
      this.#lookedAt = now;
      for (const queue of this.#queues.values()) this.#lookAgain(queue);
      this.#delivery.schedule();
    }
    for (let entry; (entry = this.#timer.first) !== undefined && entry.deadline <= now;) this.#expire(entry);
  }

  #expire(entry: Pending): void {
    const { queue } = entry;
    // The event loop may have been busy, and the call that came meanwhile still be in it.
    if (queue?.first === entry) this.#pump(queue, LOOKS);
    if (entry.state !== 'waiting') {
      this.#timer.remove(entry);
      return;
    }
    const outcome = this.#owner.timedOut(entry.wanted);
    this.#drop(entry);
    entry.waiter.settle(outcome);
  }

  #lookAgain(queue: LocalQueue): void {
    const stripes = this.#stripes;
    const { stripe, first } = queue;
    if (first === undefined) {
      if (queue.wasIdle) this.#members.wake(queue);
      queue.wasIdle = true;
      return;
    }
    if (!first.shared) stripes.writerWaits(stripe);
    // Its release will call; but not where it is this queue's, taken and not made use of.
    if (queue.got === 'no' && stripes.isAwaited(stripe)) return;
    stripes.refresh(stripe);
    this.#pump(queue, LOOKS);
  }
}
