import { threadId } from 'node:worker_threads';
import { Alarm } from '../../common/alarm.js';
import { afterTurn, defer, performance } from '../../common/host.js';
import {
  GRANTED,
  GRANTED_LATE,
  GRANTED_LATE_WITH_ABANDONED,
  GRANTED_WITH_ABANDONED,
  type AsyncWaiter,
  type Failure,
  type Outcome,
} from '../contract/engine.js';
import type { Mode } from '../contract/mode.js';
import type { Addon } from './addon.js';
import { Elsewhere } from './elsewhere.js';
import { HandOvers } from './hand-overs.js';
import { LocalQueue } from './local-queue.js';
import { Pending } from './pending.js';
import {
  BATCH,
  ENTRY_DETAIL,
  ENTRY_ID,
  ENTRY_INTS,
  GRANTED_ABANDONED,
  MORE,
  RELEASED_AND_READY,
} from './protocol.js';
import { StripeList } from './stripe-list.js';

/** While other acquisitions of the thread wait, so many async ones may succeed in a row before the waiters are checked. */
const IN_A_ROW = 64;
/** So often in a row this thread's waiters learn of grants in microtasks. */
const SETTLED_IN_A_ROW = 1024;
/**
 * While acquisitions are pending, this thread checks after this many milliseconds whether what they wait for is idle,
 * handed to a thread that is busy computing. The time doubles with each check, up to the longest: after a long wait,
 * the stripe is usually in use.
 */
const FIRST_LOOK = 25;
const LONGEST_LOOK = 200;
/** The timeout that the addon gets for an acquisition that may be aborted. It never passes. */
const ENDLESS = Number.MAX_VALUE;

/**
 * One thread as the addon knows it, for all of the thread's tables: its slot, and its pending acquisitions. It hands grants
 * and timeouts to waiters, and keeps the event loop alive while any are pending.
 */
export class NativeThread {
  readonly addon: Addon;
  /** What the thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /** By the addon's id, which is their ticket; unused ids are undefined. Keeps their tables open, too. */
  readonly #waiters: (AsyncWaiter | undefined)[] = [];
  #pending = 0;
  /** These and those that wait in JavaScript. */
  readonly pending: Pending;
  /** Whether the thread is in a sync wait: only a debugger's code can run then. */
  blocked = false;
  readonly handOvers = new HandOvers();
  /** In how many milliseconds what waits in JavaScript is to be looked at. */
  #tick = Infinity;
  /** Entries from the addon: an id and a detail about it. */
  readonly #batch = new Int32Array(ENTRY_INTS * BATCH);
  readonly stripes = new StripeList();
  /**
   * For the earliest deadline or the next check, on the clock of `performance.now()`. The pending waiters keep the
   * event loop alive; the alarm may outlast it.
   */
  readonly #alarm = new Alarm(() => this.#expire(), false);
  #arming = false;
  readonly #armLater = (): void => {
    this.#arming = false;
    this.#arm();
  };
  /** Whether a microtask will call {@link #settleLater}, and whether it needs to check anything. */
  #settling = false;
  #ready = false;
  #untilLook = FIRST_LOOK;
  #inARow = 0;
  /** How many async acquisitions the fast path has tried while others were pending. */
  #passedBy = 0;
  readonly #settleLater = (): void => {
    this.#settling = false;
    if (this.#ready) this.#settleReady();
  };

  /** Starts the addon in this thread. Calls `afterGrants` whenever the addon has woken the event loop. */
  constructor(addon: Addon, afterGrants: () => void) {
    this.addon = addon;
    this.pending = new Pending(addon);
    this.slot = addon.start(threadId, () => {
      // News from here on comes with another wake.
      try {
        this.#settleReady();
      } finally {
        afterGrants();
      }
    });
  }

  /**
   * See `LockTable.acquireAsync`. `waited`: for how many milliseconds it has waited here; negative if it has just come.
   * `arrival`: after how many that wait in the addon it came here, as far as ARRIVAL_MASK goes.
   */
  acquireAsync(
    table: number,
    waiter: AsyncWaiter,
    timeout: number,
    waited: number,
    arrival: number,
  ): Outcome | undefined {
    const { stripes, taken, mode, note } = waiter;
    const look = this.#untilLook;
    if (timeout > 0) this.ringWithin(timeout < look ? timeout : look);
    const list = this.stripes.of(stripes);
    const { code } = mode;
    const longest = timeout === Infinity && waiter.abortable === true ? ENDLESS : timeout;
    const { pending } = this;
    // From here on this calls nothing but the addon (keeps T1).
    const { length } = stripes;
    const result = this.addon.acquireAsync(table, list, length, taken, code, longest, note, waited, arrival);
    if (typeof result !== 'number') return result;
    if (result < 0) return result === GRANTED_ABANDONED ? GRANTED_WITH_ABANDONED : GRANTED;
    waiter.ticket = result;
    this.#waiters[result] = waiter;
    this.#pending++;
    pending.count++;
    if (!pending.isAlive) {
      this.addon.keepAlive(true);
      pending.isAlive = true;
    }
    return undefined;
  }

  /**
   * See `LockTable.release`. This thread's own waiters learn of a grant before it goes back to its event loop. `back`: for
   * an acquisition that is put off.
   */
  release(table: number, stripe: number, mode: Mode, back = false): void {
    // Before the release, as this may overflow the stack (keeps T1). If it grants nothing to this thread, the microtask
    // does nothing.
    if (this.#pending > 0 && !this.#settling) this.#settleSoon();
    if (this.addon.release(table, stripe, mode.code, back) === RELEASED_AND_READY) this.#ready = true;
  }

  /** See `LockTable.cancel`. */
  cancel(waiter: AsyncWaiter): boolean {
    const id = waiter.ticket;
    if (this.#waiters[id] !== waiter) return false;
    const { queue } = waiter;
    // These may overflow the stack, but then they have changed nothing that matters; the addon does not (keeps T1).
    if (queue instanceof LocalQueue && queue.standIn === waiter) queue.owner.replaceStandIn(queue);
    this.#remove(id);
    return this.addon.cancel(id);
  }

  /** See `LockTable.acquiringAsync`. */
  acquiringAsync(): void {
    if (this.#pending === 0 || ++this.#passedBy < IN_A_ROW) return;
    this.#passedBy = 0;
    if (!this.#settling) this.#settleSoon();
    this.#ready = true;
  }

  /** While the thread blocks, it holds nothing for its waiters: what was handed over within it goes to others. */
  acquireSync(call: () => number | Failure | undefined): number | Failure | undefined {
    this.handOvers.takeBack();
    const within = this.blocked;
    this.blocked = true;
    try {
      return call();
    } finally {
      this.blocked = within;
    }
  }

  /** Has the alarm ring in so many milliseconds at the latest. Reading the clock would cost more than this check. */
  ringWithin(delay: number): void {
    if (delay >= this.#alarm.delay) return;
    if (delay < this.#tick) this.#tick = delay;
    if (!this.#arming) this.#armSoon();
  }

  /** After many in a row, the event loop comes first: see `HandOvers`. */
  #settleSoon(): void {
    if (this.#inARow < SETTLED_IN_A_ROW) {
      defer(this.#settleLater, undefined);
      this.#inARow++;
    } else {
      afterTurn(this.#settleLater);
      this.#inARow = 0;
    }
    this.#settling = true;
  }

  #settleReady(): void {
    this.#ready = false;
    let handedOver: number;
    do {
      handedOver = this.addon.takeGrants(this.#batch);
      this.#settle(handedOver & ~MORE, true, (waiter, abandoned) =>
        waiter.settle(abandoned === 1 ? GRANTED_LATE_WITH_ABANDONED : GRANTED_LATE),
      );
    } while ((handedOver & MORE) !== 0);
  }

  /**
   * Settles the waiters that the addon has put into the batch. It removes all of them before it settles the first.
   * Settling may run a diagnostics subscriber, which may do anything, including cancel the others.
   */
  #settle(count: number, granted: boolean, settle: (waiter: AsyncWaiter, detail: number) => void): void {
    const batch = this.#batch;
    if (count === 1) {
      const detail = batch[ENTRY_DETAIL]!;
      const waiter = this.#remove(batch[ENTRY_ID]!);
      standInLeft(waiter, granted);
      settleOne(waiter, detail, settle);
    } else if (count > 1) {
      const entries = batch.slice(0, ENTRY_INTS * count);
      const waiters: AsyncWaiter[] = [];
      for (let i = 0; i < count; i++) waiters.push(this.#remove(entries[ENTRY_INTS * i + ENTRY_ID]!));
      // Only now: another one may get the id of one of these.
      for (const waiter of waiters) standInLeft(waiter, granted);
      for (let i = 0; i < count; i++) {
        settleOne(waiters[i]!, entries[ENTRY_INTS * i + ENTRY_DETAIL]!, settle);
      }
    }
  }

  /** If this throws, nothing has changed. */
  #remove(id: number): AsyncWaiter {
    const waiter = this.#waiters[id]!;
    this.pending.prepareEnd();
    if (waiter.queue instanceof Elsewhere) waiter.queue.left(waiter);
    this.#waiters[id] = undefined;
    if (--this.#pending === 0) this.#untilLook = FIRST_LOOK;
    this.pending.count--;
    return waiter;
  }

  /**
   * Called before there is a deadline. Sets the alarm from the microtask queue, not at once: a stack overflow in the
   * host's timers can break them for good.
   */
  #armSoon(): void {
    defer(this.#armLater, undefined);
    this.#arming = true;
  }

  #arm(): void {
    if (this.pending.count === 0) return;
    const here = this.#pending === 0 ? Infinity : Math.min(this.addon.nextDeadline(), this.#untilLook);
    const delay = Math.min(here, this.#tick);
    if (delay === Infinity) return;
    this.#alarm.setFor(performance.now() + delay, delay);
  }

  #expire(): void {
    this.blocked = false;
    this.#tick = Infinity;
    try {
      // A grant in time counts, however late this thread learns of it.
      this.#settleReady();
      let handedOver: number;
      do {
        handedOver = this.addon.expire(this.#batch);
        this.#settle(handedOver & ~MORE, false, (waiter, stripe) =>
          waiter.settle({ status: 'timeout', stripe, holders: waiter.table.holders(stripe) }),
        );
      } while ((handedOver & MORE) !== 0);
      if (this.#pending > 0) this.#lookForIdle();
      this.#tick = Math.min(this.#tick, this.pending.expire(performance.now()));
    } finally {
      this.#arm();
    }
  }

  #lookForIdle(): void {
    this.#untilLook = Math.min(2 * this.#untilLook, LONGEST_LOOK);
    this.addon.lookForIdle();
    // Waiters that have no time left may also have been granted what others did not take.
    this.#settleReady();
  }
}

/** Looks after the queue of a stand-in before other code runs (keeps I9). */
function standInLeft(waiter: AsyncWaiter, granted: boolean): void {
  const { queue } = waiter;
  if (!(queue instanceof LocalQueue) || queue.standIn !== waiter) return;
  if (granted) queue.owner.standInGranted(queue);
  else queue.owner.standInEnded(queue);
}

/** Settles a waiter, and tries once more if that fails. The other waiters are not affected. */
function settleOne(
  waiter: AsyncWaiter,
  detail: number,
  settle: (waiter: AsyncWaiter, detail: number) => void,
): void {
  try {
    settle(waiter, detail);
  } catch {
    defer(() => settle(waiter, detail), undefined);
  }
}
