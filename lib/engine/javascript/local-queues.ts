import { defer } from '../../common/host.js';
import type { Mode } from '../contract/mode.js';
import { clock, makeRoom } from './host.js';
import { LaneMember } from './lane-member.js';
import { CALLED, type Cause, isWriter, LOOKS } from './lanes.js';
import { LocalQueue, type Pending } from './local-queue.js';
import type { Stripes } from './stripes.js';

/**
 * For so long, in milliseconds, a stripe that others wait for may go from one waiter of this thread to the next
 * without the detour through the event loop.
 */
const LONGEST_KEPT = 1;

/** What the queues need of those whose acquisitions wait in them. */
export interface QueuesOwner {
  /** What a stack overflow has left undone. Who adds to it defers {@link finish}. */
  readonly unfinished: Set<Pending | LocalQueue>;
  readonly finish: () => void;
  /** An acquisition has all its stripes. */
  makeReady(entry: Pending): void;
  /** A queue was called; it is to be pumped. */
  called(queue: LocalQueue): void;
}

/**
 * The queues of one thread for the stripes of one lock, and how stripes pass through them.
 *
 * An acquisition takes its stripes in ascending order and waits in the queue of the first that it cannot have;
 * it keeps those before. A queue, not each waiter, waits in the stripe's async lane ({@link LaneMember}).
 *
 * I6  A queue with waiters sleeps in its lane or watches its claim, with QUEUED set; or this table holds its stripe
 *     exclusively, with QUEUED set, so that the release comes to {@link release}; or the thread is blocked in a sync
 *     wait, at whose end {@link unblock} arms it.
 *
 * A stack overflow can end any call that user code makes here. I8 holds for what is changed, and what then remains to be
 * done is done from a microtask: until then, I6 may not hold. Each step can be done again.
 */
export class LocalQueues {
  /** Acquisitions that wait and hold some of their stripes. */
  readonly partial = new Set<Pending>();
  readonly #stripes: Stripes;
  readonly #owner: QueuesOwner;
  readonly #members: LaneMember;
  readonly #queues = new Map<number, LocalQueue>();
  /** While the thread is blocked: queues that wait for its end. */
  readonly #unarmed = new Set<LocalQueue>();
  #blocked = false;

  constructor(stripes: Stripes, owner: QueuesOwner) {
    this.#stripes = stripes;
    this.#owner = owner;
    this.#members = new LaneMember(stripes, (queue) => owner.called(queue));
  }

  /** Whether there are queues, which may sleep in their lanes although nobody waits in them. */
  get any(): boolean {
    return this.#queues.size > 0;
  }

  /** Whether any of them sleeps in its lane. */
  get anyAsleep(): boolean {
    return this.#members.asleep.size > 0;
  }

  *waiting(): Generator<Pending> {
    for (const queue of this.#queues.values()) {
      for (let entry = queue.first; entry !== undefined; entry = entry.next) yield entry;
    }
  }

  /**
   * Takes stripes up to the first that cannot be had, and waits there: at the front of its queue if `first`. True: has
   * all.
   */
  advance(entry: Pending, first: boolean): boolean {
    const stripes = this.#stripes;
    const { mode } = entry;
    for (let stripe; (stripe = entry.stripes[entry.taken]) !== undefined;) {
      let queue = this.#queues.get(stripe);
      const isEmpty = queue?.first === undefined;
      if (isEmpty && stripes.words.arrive(stripe, mode)) {
        entry.taken++;
        continue;
      }
      if (isEmpty && stripes.intrude(stripe, mode)) {
        entry.taken++;
        stripes.entered(stripe, mode);
        continue;
      }
      if (queue === undefined) this.#queues.set(stripe, (queue = new LocalQueue(stripe)));
      stripes.lanes.idle.delete(stripe);
      queue.wasIdle = false;
      if (first) queue.unshift(entry);
      else queue.push(entry);
      if (entry.taken > 0) this.partial.add(entry);
      const comesFirst = isEmpty || first;
      if (!comesFirst || queue.got !== undefined || !this.#members.obtain(queue, entry, undefined))
        return false;
      queue.remove(entry);
      entry.taken++;
      queue.got = undefined;
      stripes.entered(stripe, mode);
      if (queue.first === undefined) {
        if (queue.asleep) stripes.lanes.idle.add(stripe);
        this.#members.rest(queue);
      }
    }
    this.partial.delete(entry);
    return true;
  }

  /** Takes what can be had of a stripe for those who wait, and sees to it that the rest is called (I6). */
  pump(queue: LocalQueue, cause: Cause | undefined): void {
    let may = cause;
    for (let head; (head = queue.first) !== undefined;) {
      if (queue.got === undefined) {
        if (!this.#members.obtain(queue, head, may)) return;
        queue.keptSince = 0;
      }
      if (queue.got?.code !== head.mode.code) {
        // The one that it was taken for has left.
        this.#giveBackGot(queue);
        may = CALLED;
        continue;
      }
      const writer = isWriter(head.mode);
      this.#took(queue, head);
      // Its release, which is this table's, goes on with the rest.
      if (writer) {
        if (queue.first === undefined) break;
        return;
      }
      may = CALLED;
    }
    if (queue.got !== undefined) this.#giveBackGot(queue);
    this.#emptied(queue);
  }

  /** The same, and makes all calls that may have been left out. */
  pumpAgain(queue: LocalQueue): void {
    this.#stripes.callAgain(queue.stripe);
    this.pump(queue, LOOKS);
  }

  /** The head of a queue has left it: those behind may be let in where it was not, as readers behind a writer. */
  headLeft(queue: LocalQueue): void {
    this.pump(queue, LOOKS);
    this.#stripes.relay(queue.stripe);
  }

  /** Gives a stripe back: to this thread's next waiter, or to all. Where it throws, the stripe is still held. */
  release(stripe: number, mode: Mode): void {
    makeRoom();
    const stripes = this.#stripes;
    if (!mode.counted && !stripes.words.isOwn(stripe)) return;
    const queue = this.#queues.get(stripe);
    const next = queue?.first;
    if (queue === undefined || next === undefined || this.#blocked) {
      if (queue !== undefined && this.#blocked) this.#unarmed.add(queue);
      stripes.release(stripe, mode);
    } else if (
      queue.got === undefined &&
      this.#mayKeep(queue) &&
      stripes.words.handOver(stripe, mode, next.mode)
    ) {
      queue.got = next.mode;
      try {
        this.pump(queue, LOOKS);
      } catch {
        this.#owner.unfinished.add(queue);
        defer(this.#owner.finish, undefined);
      }
    } else {
      queue.keptSince = 0;
      this.pump(queue, undefined);
      stripes.release(stripe, mode);
    }
  }

  /** A look at each queue: calls may have been lost. Those in which nobody waits stop sleeping after a while. */
  lookAgain(): void {
    for (const queue of this.#queues.values()) this.#lookAgainAt(queue);
  }

  /** The thread is blocked from now on. */
  block(): void {
    this.#blocked = true;
  }

  /** It is not. To be followed by {@link armAgain}. */
  unblock(): void {
    this.#blocked = false;
  }

  /** Has the queues wait again that could not while the thread was blocked. Where it throws, it can be called again. */
  armAgain(): void {
    for (const queue of this.#unarmed) {
      this.pump(queue, LOOKS);
      this.#unarmed.delete(queue);
    }
  }

  /** See `GivesWay.withdrawClaims`. */
  withdrawClaims(): void {
    for (const queue of this.#members.heads) {
      this.#unarmed.add(queue);
      this.#members.withdrawClaim(queue);
    }
  }

  /** See `GivesWay.relayCalls`. */
  relayCalls(): boolean {
    const { asleep } = this.#members;
    for (const { stripe } of asleep) this.#stripes.relay(stripe);
    return asleep.size > 0;
  }

  /** Sleeps in no lane any more. */
  leaveLanes(): void {
    this.#members.leave();
  }

  #giveBackGot(queue: LocalQueue): void {
    // Where it throws, nothing has changed.
    this.#stripes.release(queue.stripe, queue.got!);
    queue.got = undefined;
  }

  /** Nobody waits here any more: others come first, and QUEUED may no longer be needed. */
  #emptied(queue: LocalQueue): void {
    if (queue.asleep) this.#stripes.lanes.idle.add(queue.stripe);
    this.#members.rest(queue);
    if (queue.claim !== 0) this.#members.withdrawClaim(queue);
    else this.#stripes.relay(queue.stripe);
    if (!queue.asleep && !queue.watchesClaim) this.#queues.delete(queue.stripe);
  }

  /** The head of a queue has its stripe. */
  #took(queue: LocalQueue, head: Pending): void {
    makeRoom();
    const { mode } = head;
    queue.remove(head);
    head.taken++;
    queue.got = undefined;
    try {
      this.#stripes.entered(queue.stripe, mode);
      if (this.advance(head, false)) this.#owner.makeReady(head);
    } catch {
      this.#owner.unfinished.add(head);
      defer(this.#owner.finish, undefined);
    }
  }

  #mayKeep(queue: LocalQueue): boolean {
    if (!this.#stripes.lanes.othersWait(queue.stripe, queue.claim, queue.asleep)) return true;
    const now = clock();
    if (queue.keptSince === 0) queue.keptSince = now;
    return now - queue.keptSince < LONGEST_KEPT;
  }

  #lookAgainAt(queue: LocalQueue): void {
    const stripes = this.#stripes;
    const { stripe, first } = queue;
    if (first === undefined) {
      if (queue.wasIdle) this.#members.wake(queue);
      queue.wasIdle = true;
      return;
    }
    if (isWriter(first.mode)) stripes.lanes.writerWaits(stripe);
    // Its release will call; but not where it is this queue's, taken and not made use of.
    if (queue.got === undefined && stripes.words.isAwaited(stripe)) return;
    stripes.refresh(stripe);
    this.pump(queue, LOOKS);
  }
}
