import type { AsyncWaiter, Outcome, Request } from '../engine.js';
import { type GivesWay, joinGivesWay, leaveGivesWay } from './blocking.js';
import { Deadlines } from './deadlines.js';
import { Delivery } from './delivery.js';
import { LaneMember } from './lane-member.js';
import { LocalQueue, Pending } from './local-queue.js';
import { patience } from './patience.js';
import type { Stripes } from './stripes.js';

/**
 * For so long, in milliseconds, a stripe that others wait for may go from one waiter of this thread to the next
 * without the detour through the event loop.
 */
const LONGEST_KEPT = 1;

/** What the waits tell the table that they belong to. */
export interface AsyncWaitsOwner {
  waitEnded(): void;
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
 */
export class AsyncWaits implements GivesWay {
  readonly #stripes: Stripes;
  readonly #owner: AsyncWaitsOwner;
  readonly #members: LaneMember;
  readonly #queues = new Map<number, LocalQueue>();
  readonly #byWaiter = new Map<AsyncWaiter, Pending>();
  readonly #deadlines = new Deadlines<Pending>();
  readonly #delivery = new Delivery<Pending>((entry) => this.#deliver(entry));
  /** Those that wait and hold some of their stripes. */
  readonly #partial = new Set<Pending>();
  /** While the thread is blocked: what it put off. */
  #aside: Pending[] = [];
  #unarmed = new Set<LocalQueue>();
  #blocked = false;
  #joined = false;
  #timer: NodeJS.Timeout | undefined = undefined;
  #timerAt = Infinity;
  #lookedAt = 0;

  constructor(stripes: Stripes, owner: AsyncWaitsOwner) {
    this.#stripes = stripes;
    this.#owner = owner;
    this.#members = new LaneMember(stripes, (queue) => {
      this.#pump(queue, true);
      this.#updateJoined();
    });
  }

  /** Goes on with an acquisition that could not take `request.stripes[taken]`. True: has taken all at once. */
  start(request: Request, taken: number, waiter: AsyncWaiter): boolean {
    const entry = new Pending(waiter, request, taken, performance.now());
    const got = this.#advance(entry, false);
    if (!got) this.#byWaiter.set(waiter, entry);
    this.#updateJoined();
    if (got) return true;
    this.#deadlines.add(entry);
    this.#setTimer(entry.deadline, entry.since);
    return false;
  }

  cancel(waiter: AsyncWaiter): boolean {
    const entry = this.#byWaiter.get(waiter);
    if (entry === undefined) return false;
    this.#drop(entry);
    return true;
  }

  /** Gives a stripe back: to this thread's next waiter, or to all. */
  release(stripe: number, shared: boolean): void {
    const stripes = this.#stripes;
    if (!shared && !stripes.isOwn(stripe)) return;
    const queue = this.#queues.get(stripe);
    const next = queue?.first;
    if (queue === undefined || next === undefined || this.#blocked) {
      if (queue !== undefined && this.#blocked) this.#unarmed.add(queue);
      stripes.release(stripe, shared);
    } else if (this.#mayKeep(queue) && stripes.handOver(stripe, shared, next.shared)) {
      this.#took(queue, next);
      // Other readers of this queue may come in, too.
      if (next.shared) this.#pump(queue, true);
      else if (queue.first === undefined) this.#emptied(queue);
    } else {
      queue.keptSince = 0;
      this.#pump(queue, false);
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
    this.#blocked = true;
    const holding = [...this.#partial, ...this.#delivery.takeBack().filter(({ state }) => state === 'ready')];
    for (const entry of holding) {
      entry.queue?.remove(entry);
      entry.state = 'aside';
      this.#releaseTaken(entry);
      this.#aside.push(entry);
    }
  }

  relayCalls(): boolean {
    const { asleep } = this.#members;
    for (const { stripe } of asleep) this.#stripes.relay(stripe);
    return asleep.size > 0;
  }

  resume(): void {
    this.#blocked = false;
    const aside = this.#aside.sort((a, b) => a.since - b.since);
    this.#aside = [];
    // Last first, as each goes to the front of its queue.
    for (const entry of aside.reverse()) {
      entry.state = 'waiting';
      if (this.#advance(entry, true)) this.#makeReady(entry);
    }
    const unarmed = this.#unarmed;
    this.#unarmed = new Set();
    for (const queue of unarmed) this.#pump(queue, true);
  }

  leave(): void {
    this.withdrawClaims();
    this.giveBack();
    for (const entry of this.#byWaiter.values()) {
      entry.queue?.remove(entry);
      this.#owner.waitEnded();
    }
    this.#byWaiter.clear();
    this.#members.leave();
  }

  /** Takes what can be had of a stripe for those who wait, and sees to it that the rest is called (I6). */
  #pump(queue: LocalQueue, called: boolean): void {
    for (let mayTake = called; queue.first !== undefined;) {
      const head = queue.first;
      if (!this.#members.obtain(queue, head, mayTake)) return;
      queue.keptSince = 0;
      this.#took(queue, head);
      // Its release, which is this table's, goes on with the rest.
      if (!head.shared) return;
      mayTake = true;
    }
    this.#emptied(queue);
  }

  /** Nobody waits here any more: others come first, and QUEUED may be in vain. */
  #emptied(queue: LocalQueue): void {
    if (queue.asleep) this.#stripes.idle.add(queue.stripe);
    if (queue.claim !== 0) this.#members.withdrawClaim(queue);
    else this.#stripes.relay(queue.stripe);
    if (!queue.asleep && !queue.watchesClaim) this.#queues.delete(queue.stripe);
  }

  /** The head of a queue has its stripe. */
  #took(queue: LocalQueue, head: Pending): void {
    queue.remove(head);
    head.taken++;
    this.#stripes.entered(queue.stripe, head.shared);
    if (this.#advance(head, false)) this.#makeReady(head);
  }

  /** Takes stripes up to the first that cannot be had, and waits there. True: has all. */
  #advance(entry: Pending, first: boolean): boolean {
    const stripes = this.#stripes;
    const { shared } = entry;
    while (entry.taken < entry.stripes.length) {
      const stripe = entry.wanted;
      let queue = this.#queues.get(stripe);
      const isEmpty = queue?.first === undefined;
      if (isEmpty && stripes.arrive(stripe, shared)) {
        entry.taken++;
        continue;
      }
      if (queue === undefined) this.#queues.set(stripe, (queue = new LocalQueue(stripe)));
      stripes.idle.delete(stripe);
      if (first) queue.unshift(entry);
      else queue.push(entry);
      if (!(isEmpty || first) || !this.#members.obtain(queue, entry, false)) {
        if (entry.taken > 0) this.#partial.add(entry);
        return false;
      }
      queue.remove(entry);
      entry.taken++;
      stripes.entered(stripe, shared);
      if (queue.first === undefined && queue.asleep) stripes.idle.add(stripe);
    }
    this.#partial.delete(entry);
    return true;
  }

  #makeReady(entry: Pending): void {
    entry.state = 'ready';
    this.#delivery.add(entry);
  }

  #deliver(entry: Pending): boolean {
    if (entry.state !== 'ready') return false;
    this.#forget(entry);
    entry.waiter.settle({ status: 'granted', abandoned: false });
    return true;
  }

  #forget(entry: Pending): void {
    entry.state = 'settled';
    this.#byWaiter.delete(entry.waiter);
    this.#deadlines.remove(entry);
    this.#partial.delete(entry);
    this.#owner.waitEnded();
    this.#updateJoined();
    // Lets the thread end; where it goes on, the timer can be used again.
    if (this.#byWaiter.size === 0) this.#timer?.unref();
  }

  #updateJoined(): void {
    const joins = this.#byWaiter.size > 0 || this.#members.asleep.size > 0;
    if (joins === this.#joined) return;
    this.#joined = joins;
    if (joins) joinGivesWay(this);
    else leaveGivesWay(this);
  }

  /** Takes an acquisition out; it holds nothing then. */
  #drop(entry: Pending): void {
    const { queue } = entry;
    const wasFirst = queue?.first === entry;
    queue?.remove(entry);
    this.#forget(entry);
    this.#releaseTaken(entry);
    if (queue === undefined || !wasFirst) return;
    // Those behind may be let in where it was not: readers behind a writer.
    this.#pump(queue, true);
    this.#stripes.relay(queue.stripe);
  }

  #releaseTaken(entry: Pending): void {
    this.#partial.delete(entry);
    while (entry.taken > 0) {
      entry.taken--;
      if (!entry.shared || this.#stripes.dropShare(entry.wanted)) this.release(entry.wanted, entry.shared);
    }
  }

  #mayKeep(queue: LocalQueue): boolean {
    if (!this.#stripes.othersWait(queue.stripe, queue.claim, queue.asleep)) return true;
    const now = performance.now();
    if (queue.keptSince === 0) queue.keptSince = now;
    return now - queue.keptSince < LONGEST_KEPT;
  }

  /** One timer for all: the next deadline, the next look at the queues, and what keeps the event loop alive. */
  #setTimer(deadline: number, now: number): void {
    const at = Math.min(deadline, now + patience.eventLoop);
    if (this.#timer !== undefined && this.#timerAt <= at) {
      this.#timer.ref();
      return;
    }
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => this.#onTimer(), Math.max(1, Math.ceil(at - now)));
  }

  #onTimer(): void {
    this.#timer = undefined;
    this.#timerAt = Infinity;
    if (this.#byWaiter.size === 0) return;
    const now = performance.now();
    if (now - this.#lookedAt >= patience.eventLoop) {
      this.#lookedAt = now;
      for (const queue of this.#queues.values()) this.#lookAgain(queue);
    }
    for (let entry; (entry = this.#deadlines.first) !== undefined && entry.deadline <= now;)
      this.#expire(entry);
    if (this.#byWaiter.size > 0) this.#setTimer(this.#deadlines.first?.deadline ?? Infinity, now);
  }

  #expire(entry: Pending): void {
    const { queue } = entry;
    // The event loop may have been busy, and the call that came meanwhile still be in it.
    if (queue?.first === entry) this.#pump(queue, true);
    if (entry.state !== 'waiting') {
      this.#deadlines.remove(entry);
      return;
    }
    const outcome = this.#owner.timedOut(entry.wanted);
    this.#drop(entry);
    entry.waiter.settle(outcome);
  }

  #lookAgain(queue: LocalQueue): void {
    if (queue.first === undefined) return;
    const stripes = this.#stripes;
    const { stripe } = queue;
    // Its release will call.
    if (stripes.isAwaited(stripe)) return;
    const call = stripes.pendingCall(stripe);
    if (call !== -1 && call === queue.seenCall) stripes.refresh(stripe);
    queue.seenCall = call;
    this.#pump(queue, true);
  }
}
