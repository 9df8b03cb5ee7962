/// <reference lib="es2024.sharedmemory" />
import type { LocalQueue, Pending } from './local-queue.js';
import {
  ASYNC_LANE,
  CALLED,
  type Cause,
  CLAIM,
  DOZES,
  EVENTS,
  isSharedClaim,
  laneIndex,
  OFFERED,
  SLEEPERS,
  type Stripes,
  WAS_OFFERED,
  WRITERS,
} from './stripes.js';

/**
 * Waits in the async lanes on behalf of this thread's queues, and tells when something happened there.
 *
 * A stack overflow may end any of this at any call. What was done then is noted in the queue (I8), and to do it again
 * goes on from there.
 */
export class LaneMember {
  /** The queues that are the head of their lane. */
  readonly heads = new Set<LocalQueue>();
  /** The queues that sleep in their lane. */
  readonly asleep = new Set<LocalQueue>();
  readonly #stripes: Stripes;
  readonly #onCall: (queue: LocalQueue) => void;

  /** `onCall`: the queue was called; it must take the stripe, sleep again, or relay. */
  constructor(stripes: Stripes, onCall: (queue: LocalQueue) => void) {
    this.#stripes = stripes;
    this.#onCall = onCall;
  }

  /**
   * Takes the stripe for the head of the queue, if it can be had, and notes it in `queue.got`; else sees to it that the
   * thread is told when it may be worth another attempt. `cause`: why it may take what others wait for; no attempt
   * before used that.
   */
  obtain(queue: LocalQueue, head: Pending, cause: Cause | undefined): boolean {
    const stripes = this.#stripes;
    const { stripe } = queue;
    const { shared } = head;
    const got = shared ? 'shared' : 'exclusive';
    let may = cause;
    if (queue.asleep) this.#countWriter(queue, !shared);
    if (queue.claim !== 0 && isSharedClaim(queue.claim) !== shared) {
      // The one that claimed has left the queue.
      this.withdrawClaim(queue);
      may = CALLED;
    }
    for (;;) {
      if (this.#answerOffer(queue, shared)) break;
      if (may !== undefined && stripes.takeCalled(stripe, shared, ASYNC_LANE, may)) break;
      if (queue.claim === 0 && may !== undefined)
        this.#setClaim(queue, stripes.claim(stripe, ASYNC_LANE, shared));
      if (queue.claim === 0 && !queue.asleep) {
        const slept = this.#sleep(queue, shared);
        if (slept === 'taken') break;
        if (slept === 'asleep') return false;
        may = CALLED;
        continue;
      }
      if (stripes.announce(stripe, shared)) break;
      if (queue.claim === 0 || this.#watchClaim(queue)) return false;
    }
    queue.got = got;
    this.rest(queue);
    this.dropClaim(queue);
    return true;
  }

  /** Ends the claim without calling another. */
  dropClaim(queue: LocalQueue): void {
    if (queue.claim !== 0) this.#stripes.dropClaim(queue.stripe, ASYNC_LANE, queue.claim);
    this.#setClaim(queue, 0);
  }

  withdrawClaim(queue: LocalQueue): void {
    if (queue.claim !== 0) this.#stripes.withdraw(queue.stripe, ASYNC_LANE, queue.claim);
    this.#setClaim(queue, 0);
  }

  /** Nobody waits in the queue, or its head has the stripe. */
  rest(queue: LocalQueue): void {
    if (queue.asleep) this.#countWriter(queue, false);
    else this.#uncount(queue);
  }

  /**
   * Ends the sleep of a queue in which nobody waits: a sleep that nobody ends keeps the table for good. To wake this one
   * is to call all in the lane, as nobody can tell whose turn in it is this one's; each follows the call (I4).
   */
  wake(queue: LocalQueue): void {
    const { stripe } = queue;
    if (queue.asleep) this.#stripes.callAll(stripe, ASYNC_LANE);
    // Another head that watches the claim looks once more.
    if (queue.watchesClaim) Atomics.notify(this.#stripes.words, laneIndex(stripe, ASYNC_LANE) + CLAIM);
  }

  /** Sleeps nowhere any more, and has everybody called whose call it may have got (I4). */
  leave(): void {
    for (const queue of this.asleep) {
      const { stripe } = queue;
      this.#stripes.idle.delete(stripe);
      this.#uncount(queue);
      this.#stripes.callAll(stripe, ASYNC_LANE);
    }
    this.asleep.clear();
  }

  #setClaim(queue: LocalQueue, claim: number): void {
    if (claim === queue.claim) return;
    queue.claim = claim;
    if (claim === 0) this.heads.delete(queue);
    else this.heads.add(queue);
  }

  /** True: was offered the stripe and has taken it. */
  #answerOffer(queue: LocalQueue, shared: boolean): boolean {
    const stripes = this.#stripes;
    const { stripe, claim } = queue;
    if (claim === 0) return false;
    const index = laneIndex(stripe, ASYNC_LANE) + CLAIM;
    let now = Atomics.load(stripes.words, index);
    if (now === (claim | OFFERED)) {
      if (stripes.takeCalled(stripe, shared, ASYNC_LANE, WAS_OFFERED)) return true;
      now = Atomics.compareExchange(stripes.words, index, now, claim);
    }
    // Taken away: it answered too late.
    if ((now & ~OFFERED) !== claim) this.#setClaim(queue, 0);
    return false;
  }

  #sleep(queue: LocalQueue, shared: boolean): 'taken' | 'asleep' | 'called' {
    const stripes = this.#stripes;
    const { stripe } = queue;
    const lane = laneIndex(stripe, ASYNC_LANE);
    const index = lane + EVENTS;
    if (!queue.isCounted) Atomics.add(stripes.words, lane + SLEEPERS, 1);
    queue.isCounted = true;
    this.#countWriter(queue, !shared);
    const events = Atomics.load(stripes.words, index);
    if (stripes.announce(stripe, shared)) return 'taken';
    const onEvent = (): void => {
      if (!this.asleep.delete(queue)) return;
      queue.asleep = false;
      stripes.idle.delete(stripe);
      this.#uncount(queue);
      this.#onCall(queue);
    };
    // From here to the `then` no stack is checked, as all arguments are passed (I8).
    const wait = Atomics.waitAsync(stripes.words, index, events, Infinity);
    if (!wait.async) {
      this.#uncount(queue);
      return 'called';
    }
    queue.asleep = true;
    this.asleep.add(queue);
    void wait.value.then(onEvent, undefined);
    return 'asleep';
  }

  #uncount(queue: LocalQueue): void {
    const { words } = this.#stripes;
    const lane = laneIndex(queue.stripe, ASYNC_LANE);
    if (queue.isCounted) Atomics.sub(words, lane + SLEEPERS, 1);
    queue.isCounted = false;
    if (queue.isCountedAsWriter) Atomics.sub(words, lane + WRITERS, 1);
    queue.isCountedAsWriter = false;
  }

  #countWriter(queue: LocalQueue, is: boolean): void {
    if (queue.isCountedAsWriter === is) return;
    Atomics.add(this.#stripes.words, laneIndex(queue.stripe, ASYNC_LANE) + WRITERS, is ? 1 : -1);
    queue.isCountedAsWriter = is;
  }

  /** False: there is news already. */
  #watchClaim(queue: LocalQueue): boolean {
    const { words } = this.#stripes;
    const lane = laneIndex(queue.stripe, ASYNC_LANE);
    Atomics.store(words, lane + DOZES, 1);
    if (queue.watchesClaim) return true;
    const onChange = (): void => {
      queue.watchesClaim = false;
      this.#onCall(queue);
    };
    const wait = Atomics.waitAsync(words, lane + CLAIM, queue.claim, Infinity);
    if (!wait.async) return false;
    queue.watchesClaim = true;
    void wait.value.then(onChange, undefined);
    return true;
  }
}
