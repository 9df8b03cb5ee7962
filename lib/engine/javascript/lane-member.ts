/// <reference lib="es2024.sharedmemory" />
import type { Mode } from '../contract/mode.js';
import {
  ASYNC_LANE,
  CALLED,
  type Cause,
  CLAIM,
  DOZES,
  EVENTS,
  isWriter,
  laneIndex,
  OFFERED,
  SLEEPERS,
  WAS_OFFERED,
  WRITERS,
} from './lanes.js';
import type { LocalQueue, Pending } from './local-queue.js';
import type { Stripes } from './stripes.js';

/**
 * Waits in the async lanes on behalf of this thread's queues, and tells when something happens there.
 *
 * A stack overflow may end any of these functions at any call. What was done by then is noted in the queue (I8), and a
 * second call goes on from there.
 */
export class LaneMember {
  /** The queues that are the head of their lane. */
  readonly heads = new Set<LocalQueue>();
  /** The queues that sleep in their lane. */
  readonly asleep = new Set<LocalQueue>();
  readonly #stripes: Stripes;
  readonly #onCall: (queue: LocalQueue) => void;

  /** `onCall`: the queue was called. It must take the stripe, sleep again, or relay the call (I4). */
  constructor(stripes: Stripes, onCall: (queue: LocalQueue) => void) {
    this.#stripes = stripes;
    this.#onCall = onCall;
  }

  /**
   * Takes the stripe for the head of the queue, if it is available, and notes it in `queue.got`. Else it waits in the lane
   * until another attempt may succeed. `cause`: why it may take what others wait for; each cause counts for one attempt.
   */
  obtain(queue: LocalQueue, head: Pending, cause: Cause | undefined): boolean {
    const stripes = this.#stripes;
    const { stripe } = queue;
    const { mode } = head;
    let may = cause;
    if (queue.asleep) this.#countWriter(queue, isWriter(mode));
    if (queue.claim !== 0 && queue.claim !== stripes.lanes.claimIn(mode)) {
      // The one that claimed in another mode has left the queue.
      this.withdrawClaim(queue);
      may = CALLED;
    }
    for (;;) {
      if (this.#answerOffer(queue, mode)) break;
      if (may !== undefined && stripes.takeCalled(stripe, mode, ASYNC_LANE, may)) break;
      if (queue.claim === 0 && may !== undefined)
        this.#setClaim(queue, stripes.lanes.claim(stripe, ASYNC_LANE, mode));
      if (queue.claim === 0 && !queue.asleep) {
        const slept = this.#sleep(queue, mode);
        if (slept === 'taken') break;
        if (slept === 'asleep') return false;
        may = CALLED;
        continue;
      }
      if (stripes.announce(stripe, mode)) break;
      if (queue.claim === 0 || this.#watchClaim(queue)) return false;
    }
    queue.got = mode;
    this.rest(queue);
    this.dropClaim(queue);
    return true;
  }

  /** Ends the claim without calling another. */
  dropClaim(queue: LocalQueue): void {
    if (queue.claim !== 0) this.#stripes.lanes.dropClaim(queue.stripe, ASYNC_LANE, queue.claim);
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
   * Ends the sleep of a queue in which nobody waits: a sleep that never ends keeps the table from being collected. All in
   * the lane are called, as it is unknown which turn in it is this one's; each follows the call (I4).
   */
  wake(queue: LocalQueue): void {
    const { stripe } = queue;
    if (queue.asleep) this.#stripes.callAll(stripe, ASYNC_LANE);
    // If another thread's head sleeps on the claim, it looks once more.
    if (queue.watchesClaim) Atomics.notify(this.#stripes.lanes.memory, laneIndex(stripe, ASYNC_LANE) + CLAIM);
  }

  /** Sleeps in no lane any more, and calls all whose call it may have got (I4). */
  leave(): void {
    for (const queue of this.asleep) {
      const { stripe } = queue;
      this.#stripes.lanes.idle.delete(stripe);
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
  #answerOffer(queue: LocalQueue, mode: Mode): boolean {
    const stripes = this.#stripes;
    const { memory } = stripes.lanes;
    const { stripe, claim } = queue;
    if (claim === 0) return false;
    const index = laneIndex(stripe, ASYNC_LANE) + CLAIM;
    let now = Atomics.load(memory, index);
    if (now === (claim | OFFERED)) {
      if (stripes.takeCalled(stripe, mode, ASYNC_LANE, WAS_OFFERED)) return true;
      now = Atomics.compareExchange(memory, index, now, claim);
    }
    // The claim is void: it answered too late.
    if ((now & ~OFFERED) !== claim) this.#setClaim(queue, 0);
    return false;
  }

  #sleep(queue: LocalQueue, mode: Mode): 'taken' | 'asleep' | 'called' {
    const stripes = this.#stripes;
    const { memory, idle } = stripes.lanes;
    const { stripe } = queue;
    const lane = laneIndex(stripe, ASYNC_LANE);
    const index = lane + EVENTS;
    if (!queue.isCounted) Atomics.add(memory, lane + SLEEPERS, 1);
    queue.isCounted = true;
    this.#countWriter(queue, isWriter(mode));
    const events = Atomics.load(memory, index);
    if (stripes.announce(stripe, mode)) return 'taken';
    const onEvent = (): void => {
      if (!this.asleep.delete(queue)) return;
      queue.asleep = false;
      idle.delete(stripe);
      this.#uncount(queue);
      this.#onCall(queue);
    };
    // From here to the `then` no stack overflow is possible, as all arguments are passed (I8).
    const wait = Atomics.waitAsync(memory, index, events, Infinity);
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
    const { memory } = this.#stripes.lanes;
    const lane = laneIndex(queue.stripe, ASYNC_LANE);
    if (queue.isCounted) Atomics.sub(memory, lane + SLEEPERS, 1);
    queue.isCounted = false;
    if (queue.isCountedAsWriter) Atomics.sub(memory, lane + WRITERS, 1);
    queue.isCountedAsWriter = false;
  }

  #countWriter(queue: LocalQueue, writes: boolean): void {
    if (queue.isCountedAsWriter === writes) return;
    Atomics.add(this.#stripes.lanes.memory, laneIndex(queue.stripe, ASYNC_LANE) + WRITERS, writes ? 1 : -1);
    queue.isCountedAsWriter = writes;
  }

  /** False: the claim has changed already. */
  #watchClaim(queue: LocalQueue): boolean {
    const { memory } = this.#stripes.lanes;
    const lane = laneIndex(queue.stripe, ASYNC_LANE);
    Atomics.store(memory, lane + DOZES, 1);
    if (queue.watchesClaim) return true;
    const onChange = (): void => {
      queue.watchesClaim = false;
      this.#onCall(queue);
    };
    const wait = Atomics.waitAsync(memory, lane + CLAIM, queue.claim, Infinity);
    if (!wait.async) return false;
    queue.watchesClaim = true;
    void wait.value.then(onChange, undefined);
    return true;
  }
}
