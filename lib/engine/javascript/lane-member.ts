/// <reference lib="es2024.sharedmemory" />
import type { LocalQueue, Pending } from './local-queue.js';
import { ASYNC_LANE, CLAIM, EVENTS, isSharedClaim, laneIndex, OFFERED, type Stripes } from './stripes.js';

/** Waits in the async lanes on behalf of this thread's queues, and tells when something happened there. */
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
   * Takes the stripe for the head of the queue, if it can be had; else sees to it that the thread is told when it
   * may be worth another attempt. `called`: this attempt is due to a call, and none before used it.
   */
  obtain(queue: LocalQueue, head: Pending, called: boolean): boolean {
    const stripes = this.#stripes;
    const { stripe } = queue;
    const { shared } = head;
    let mayTake = called;
    if (queue.claim !== 0 && isSharedClaim(queue.claim) !== shared) {
      // The one that claimed has left the queue.
      this.withdrawClaim(queue);
      mayTake = true;
    }
    for (;;) {
      if (this.#answerOffer(queue, shared) || (mayTake && stripes.takeCalled(stripe, shared, false))) break;
      if (queue.claim === 0 && mayTake) this.#setClaim(queue, stripes.claim(stripe, ASYNC_LANE, shared));
      if (queue.claim === 0 && !queue.asleep) {
        const slept = this.#sleep(queue, shared);
        if (slept === 'taken') break;
        if (slept === 'asleep') return false;
        mayTake = true;
        continue;
      }
      if (stripes.announce(stripe, shared)) break;
      if (queue.claim === 0 || queue.watchesClaim || this.#watchClaim(queue)) return false;
    }
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

  /** Sleeps nowhere any more, and has everybody called whose call it may have got (I4). */
  leave(): void {
    for (const { stripe } of this.asleep) {
      this.#stripes.idle.delete(stripe);
      this.#stripes.countSleeper(stripe, ASYNC_LANE, -1);
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
      if (stripes.takeCalled(stripe, shared, true)) return true;
      now = Atomics.compareExchange(stripes.words, index, now, claim);
    }
    // Taken away: it answered too late.
    if ((now & ~OFFERED) !== claim) this.#setClaim(queue, 0);
    return false;
  }

  #sleep(queue: LocalQueue, shared: boolean): 'taken' | 'asleep' | 'called' {
    const stripes = this.#stripes;
    const { stripe } = queue;
    const index = laneIndex(stripe, ASYNC_LANE) + EVENTS;
    stripes.countSleeper(stripe, ASYNC_LANE, 1);
    const events = Atomics.load(stripes.words, index);
    if (stripes.announce(stripe, shared)) {
      stripes.countSleeper(stripe, ASYNC_LANE, -1);
      return 'taken';
    }
    const wait = Atomics.waitAsync(stripes.words, index, events);
    if (!wait.async) {
      stripes.countSleeper(stripe, ASYNC_LANE, -1);
      return 'called';
    }
    queue.asleep = true;
    this.asleep.add(queue);
    void wait.value.then(() => {
      if (!this.asleep.delete(queue)) return;
      queue.asleep = false;
      stripes.idle.delete(stripe);
      stripes.countSleeper(stripe, ASYNC_LANE, -1);
      this.#onCall(queue);
    });
    return 'asleep';
  }

  /** False: there is news already. */
  #watchClaim(queue: LocalQueue): boolean {
    const { words } = this.#stripes;
    const wait = Atomics.waitAsync(words, laneIndex(queue.stripe, ASYNC_LANE) + CLAIM, queue.claim);
    if (!wait.async) return false;
    queue.watchesClaim = true;
    void wait.value.then(() => {
      queue.watchesClaim = false;
      this.#onCall(queue);
    });
    return true;
  }
}
