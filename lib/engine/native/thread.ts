import { threadId } from 'node:worker_threads';
import { Alarm } from '../../common/timers.js';
import { DeferredCall } from '../../common/deferred-call.js';
import { afterTurn, defer, performance } from '../../common/host.js';
import {
  GRANTED,
  GRANTED_LATE,
  GRANTED_LATE_WITH_ABANDONED,
  GRANTED_WITH_ABANDONED,
  type AsyncWaiter,
  type Outcome,
} from '../contract/engine.js';
import type { Mode } from '../contract/mode.js';
import type { Addon } from './addon.js';
import { HandOvers, type LocalQueue } from './local-queue.js';
import type { LocalWaits } from './local-waits.js';
import {
  BATCH,
  DRAW_SHIFT,
  ENTRY_DETAIL,
  ENTRY_FAILED,
  ENTRY_ID,
  ENTRY_INTS,
  FAULT_SHIFT,
  GRANTED_ABANDONED,
  MORE,
  RELEASED_AND_READY,
} from './protocol.js';

/**
 * The number of consecutive async acquisitions that may pass the waiters of the same thread. After these
 * acquisitions, the thread checks whether its waiters have grants.
 */
const IN_A_ROW = 64;
/**
 * While acquisitions of a thread wait in the addon, the thread checks for idle stripes. An idle stripe was
 * granted to a thread that is busy computing and does not collect the grant. The interval between two checks
 * starts at `FIRST_LOOK` milliseconds. The interval doubles with each check, up to `LONGEST_LOOK`, because a
 * stripe that is not available after a long wait is usually in use, not idle.
 */
const FIRST_LOOK = 25;
const LONGEST_LOOK = 200;
/**
 * The addon gets this timeout for an acquisition that has no timeout, but that a signal may abort. This
 * timeout never expires. To the addon, Infinity would mean that nothing can end the wait.
 */
const ENDLESS = Number.MAX_VALUE;

/**
 * The initial length of the array of {@link StripeList}. V8 allocates the memory of an array of this length
 * outside its heap.
 */
const SMALL = 64;

/**
 * Converts a list of stripes to an argument of the addon. A single stripe becomes a number. Several stripes
 * are written to the start of an array that all calls reuse. A new small array would be slower: V8 would have
 * to move the array's memory out of the heap for the addon, which costs more than the rest of the call.
 */
class StripeList {
  #list = new Int32Array(SMALL);

  of(stripes: readonly number[]): number | Int32Array {
    if (stripes.length === 1) return stripes[0]!;
    if (stripes.length > this.#list.length) this.#list = new Int32Array(stripes.length);
    this.#list.set(stripes);
    return this.#list;
  }
}

/**
 * The state that all native tables of one thread share: the thread's slot and its pending acquisitions. This
 * class notifies waiters of grants and timeouts, and keeps the event loop alive while acquisitions are
 * pending.
 */
export class NativeThread {
  readonly addon: Addon;
  /** The number that the thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /**
   * The acquisitions that wait in the addon. The index is the waiter's ticket, which is the addon's id of the
   * waiter. While a waiter is in this array, its table is not garbage-collected.
   */
  readonly #waiters: (AsyncWaiter | undefined)[] = [];
  /** The number of acquisitions that wait in the addon. */
  #inAddon = 0;
  /** The number of pending acquisitions, in the addon and in JavaScript. */
  pending = 0;
  /** Whether the addon keeps the event loop alive for the pending acquisitions. */
  #isAlive = false;
  #lettingGo = false;
  readonly #endTurn = (): void => {
    afterTurn(this.#letGo);
  };
  /**
   * The waiters in JavaScript that this thread checks, grouped by table. While an object is in this set, its
   * table is not garbage-collected.
   */
  readonly #locals = new Set<LocalWaits>();
  readonly #letGo = (): void => {
    this.#lettingGo = false;
    if (this.pending > 0) return;
    for (const local of this.#locals) {
      local.sweep();
      local.isListed = false;
    }
    this.#locals.clear();
    this.addon.keepAlive(false);
    this.#isAlive = false;
  };
  /** Whether the thread is in a sync wait. Only a debugger can run JavaScript during such a wait. */
  blocked = false;
  readonly handOvers = new HandOvers();
  /**
   * The number of milliseconds until the waiters in JavaScript must be checked; Infinity if no check is
   * needed.
   */
  #tick = Infinity;
  /** The buffer that the addon fills with entries: see {@link ENTRY_INTS}. */
  readonly #batch = new Int32Array(ENTRY_INTS * BATCH);
  readonly stripes = new StripeList();
  /**
   * Fires at the earliest deadline or at the next check, whichever comes first. Times are by
   * `performance.now()`. The alarm does not keep the event loop alive, because the addon does that for
   * pending acquisitions.
   */
  readonly #alarm = new Alarm(() => this.#expire(), false);
  /**
   * Sets the alarm from a microtask, where the stack is empty: see `DeadlineTimer`. The microtask is
   * scheduled before an acquisition starts to wait, because scheduling can throw (preserves T1).
   */
  readonly #arming = new DeferredCall(() => this.#arm());
  /** Whether the addon has reported grants that {@link #settling} must deliver. */
  #ready = false;
  /** Delivers grants to this thread's own waiters before the thread returns to its event loop. */
  readonly #settling = new DeferredCall(() => {
    if (this.#ready) this.#settleReady();
  });
  #untilLook = FIRST_LOOK;
  /**
   * The number of consecutive async acquisitions that the fast path has tried while waiters of this thread
   * waited in the addon.
   */
  #passedBy = 0;
  /**
   * Starts the addon in this thread. Each time the addon wakes the event loop, this class delivers grants and
   * then calls `afterGrants`.
   */
  constructor(addon: Addon, afterGrants: () => void) {
    this.addon = addon;
    this.slot = addon.start(threadId, () => {
      // For grants after this delivery, the addon wakes the event loop again.
      try {
        this.#settleReady();
      } finally {
        afterGrants();
      }
    });
  }

  /**
   * See `LockTable.acquireAsync`. `waited`: the milliseconds that the acquisition has already waited in
   * JavaScript; negative for a new acquisition. `arrival`: the number of acquisitions that had arrived in the
   * addon's queue before this acquisition, modulo ARRIVAL_MASK + 1.
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
    if (timeout > 0) this.scheduleWithin(timeout < look ? timeout : look);
    const list = this.stripes.of(stripes);
    const { code } = mode;
    const longest = timeout === Infinity && waiter.abortable === true ? ENDLESS : timeout;
    // From here on, no function is called except those of the addon (preserves T1).
    const { length } = stripes;
    const result = this.addon.acquireAsync(table, list, length, taken, code, longest, note, waited, arrival);
    if (typeof result !== 'number') return result;
    if (result < 0) return result === GRANTED_ABANDONED ? GRANTED_WITH_ABANDONED : GRANTED;
    waiter.ticket = result;
    this.#waiters[result] = waiter;
    this.#inAddon++;
    this.pending++;
    if (!this.#isAlive) {
      this.addon.keepAlive(true);
      this.#isAlive = true;
    }
    return undefined;
  }

  /**
   * See `LockTable.release`. If the release grants a stripe to a waiter of this thread, the waiter is
   * notified before the thread returns to its event loop. `back`: true if the holder was not notified of its
   * grant and gives the stripe back. The next holder then sees the same `abandoned`.
   */
  release(table: number, stripe: number, mode: Mode, back = false): void {
    // The microtask is scheduled before the release (preserves T1). If the release grants nothing to this
    // thread, the microtask does nothing.
    if (this.#inAddon > 0) this.#settling.schedule();
    if (this.addon.release(table, stripe, mode.code, back) === RELEASED_AND_READY) this.#ready = true;
  }

  /** See `LockTable.cancel`. */
  cancel(waiter: AsyncWaiter): boolean {
    const id = waiter.ticket;
    if (this.#waiters[id] !== waiter) return false;
    const queue = placeOf(waiter);
    // If one of the next three calls throws, this method can be called again. The addon's `cancel` does not
    // throw (preserves T1).
    if (queue?.isQueue === true && queue.standIn === waiter) queue.local.replaceStandIn(queue);
    this.prepareEnd();
    this.#remove(id);
    return this.addon.cancel(id);
  }

  /** See `LockTable.acquiringAsync`. */
  acquiringAsync(): void {
    if (this.#inAddon === 0 || ++this.#passedBy < IN_A_ROW) return;
    this.#passedBy = 0;
    this.#settling.schedule();
    this.#ready = true;
  }

  /**
   * Makes a call that blocks this thread. A blocked thread must not hold stripes for its own waiters. So
   * stripes that are being handed over to these waiters are released first.
   */
  whileBlocked<T>(call: () => T): T {
    this.handOvers.takeBack();
    const within = this.blocked;
    this.blocked = true;
    try {
      return call();
    } finally {
      this.blocked = within;
    }
  }

  /**
   * Makes the thread check the deadlines of the waiters in `local`, until the thread has no pending
   * acquisition.
   */
  list(local: LocalWaits): void {
    if (local.isListed) return;
    this.#locals.add(local);
    local.isListed = true;
  }

  /** Keeps the event loop alive. Call this before {@link pending} increases. */
  stayAlive(): void {
    if (this.#isAlive) return;
    this.addon.keepAlive(true);
    this.#isAlive = true;
  }

  /**
   * Call this before {@link pending} decreases. After the last pending acquisition has ended, the event loop
   * is kept alive for one more turn, because another acquisition often starts to wait during that turn.
   */
  prepareEnd(): void {
    if (this.pending === 1) this.#scheduleEnd();
  }

  /**
   * Schedules {@link #letGo}, from a microtask. Scheduling it takes 3 µs in a thread that was idle, and code
   * that awaits a grant runs first if its promise was resolved before this call. If this throws, nothing has
   * changed.
   */
  #scheduleEnd(): void {
    if (this.#lettingGo) return;
    defer(this.#endTurn, undefined);
    this.#lettingGo = true;
  }

  /**
   * Makes the alarm fire within this many milliseconds. The method compares delays, because comparing times
   * would require reading the clock.
   */
  scheduleWithin(delay: number): void {
    if (delay >= this.#alarm.delay) return;
    if (delay < this.#tick) this.#tick = delay;
    this.#arming.schedule();
  }

  #settleReady(): void {
    this.#ready = false;
    let handedOver: number;
    do {
      handedOver = this.addon.takeGrants(this.#batch);
      this.#settle(handedOver & ~MORE, true);
    } while ((handedOver & MORE) !== 0);
  }

  /**
   * Settles the waiters that the addon has put into the batch. All these waiters are removed before the first
   * waiter is settled, because settling may run a diagnostics subscriber. A subscriber may run any code,
   * which could cancel the other waiters. Call this with an empty stack, so that no call can overflow it.
   */
  #settle(count: number, granted: boolean): void {
    const batch = this.#batch;
    try {
      if (count === 1) {
        const detail = batch[ENTRY_DETAIL]!;
        const waiter = this.#remove(batch[ENTRY_ID]!);
        standInLeft(waiter, granted);
        this.#settleOne(waiter, granted, detail);
      } else if (count > 1) {
        const entries = batch.slice(0, ENTRY_INTS * count);
        const waiters: AsyncWaiter[] = [];
        for (let i = 0; i < count; i++) waiters.push(this.#remove(entries[ENTRY_INTS * i + ENTRY_ID]!));
        // This loop runs after all waiters are removed, because a new stand-in may get the id of a removed
        // waiter.
        for (const waiter of waiters) standInLeft(waiter, granted);
        for (let i = 0; i < count; i++) {
          this.#settleOne(waiters[i]!, granted, entries[ENTRY_INTS * i + ENTRY_DETAIL]!);
        }
      }
    } finally {
      if (count > 0 && this.pending === 0) this.#scheduleEnd();
    }
  }

  /**
   * Settles one waiter. `detail` describes the outcome. For a grant: whether an earlier holder's thread ended
   * without releasing, and the result of the draw for a profile. For an acquisition that failed: the fault of
   * the file. For a timeout: the stripe that was not free.
   */
  #settleOne(waiter: AsyncWaiter, granted: boolean, detail: number): void {
    if (granted && (detail & ENTRY_FAILED) !== 0) {
      const fault = (detail & ~ENTRY_FAILED) >> FAULT_SHIFT;
      const number = detail & ((1 << FAULT_SHIFT) - 1);
      waiter.settle({ status: 'failed', fault, number, waited: true });
    } else if (granted) {
      const { begun } = waiter;
      if (begun !== undefined) begun.draw = detail >> DRAW_SHIFT;
      waiter.settle((detail & 1) === 1 ? GRANTED_LATE_WITH_ABANDONED : GRANTED_LATE);
    } else waiter.settle({ status: 'timeout', stripe: detail, holders: waiter.table.holders(detail) });
  }

  /**
   * Removes a waiter that no longer waits in the addon. If the event loop may end then, the caller schedules
   * that. If this throws, nothing has changed.
   */
  #remove(id: number): AsyncWaiter {
    const waiter = this.#waiters[id]!;
    const place = placeOf(waiter);
    if (place?.isQueue === false) place.leftElsewhere(waiter);
    this.#waiters[id] = undefined;
    if (--this.#inAddon === 0) this.#untilLook = FIRST_LOOK;
    this.pending--;
    return waiter;
  }

  #arm(): void {
    if (this.pending === 0) return;
    const here = this.#inAddon === 0 ? Infinity : Math.min(this.addon.nextDeadline(), this.#untilLook);
    const delay = Math.min(here, this.#tick);
    if (delay === Infinity) return;
    this.#alarm.setFor(performance.now() + delay, delay);
  }

  #expire(): void {
    this.blocked = false;
    this.#tick = Infinity;
    try {
      // Grants come first: a grant before the deadline is valid, however late this thread processes it.
      this.#settleReady();
      let handedOver: number;
      do {
        handedOver = this.addon.expire(this.#batch);
        this.#settle(handedOver & ~MORE, false);
      } while ((handedOver & MORE) !== 0);
      if (this.#inAddon > 0) this.#revokeIdleGrants();
      const time = performance.now();
      for (const local of this.#locals) this.#tick = Math.min(this.#tick, local.expire(time) - time);
    } finally {
      this.#arm();
    }
  }

  #revokeIdleGrants(): void {
    this.#untilLook = Math.min(2 * this.#untilLook, LONGEST_LOOK);
    this.addon.revokeIdleGrants();
    // The addon may have granted an idle stripe to a waiter of this thread, even to a waiter whose timeout
    // has passed.
    this.#settleReady();
  }
}

/**
 * The object that counts a waiter in the addon: the queue whose stand-in the waiter is, or the table's
 * `LocalWaits`. Undefined for a key of a file. The field `isQueue` distinguishes them, because `instanceof`
 * takes a microsecond in a thread that was idle.
 */
function placeOf(waiter: AsyncWaiter): LocalQueue | LocalWaits | undefined {
  return waiter.queue as LocalQueue | LocalWaits | undefined;
}

/**
 * Call this when a waiter has stopped waiting in the addon, before other code runs (preserves I9). If the
 * waiter is a stand-in (see `local-waits.ts`), this function updates the stand-in's queue.
 */
function standInLeft(waiter: AsyncWaiter, granted: boolean): void {
  const queue = placeOf(waiter);
  if (queue?.isQueue !== true || queue.standIn !== waiter) return;
  if (granted) queue.local.standInGranted(queue);
  else queue.local.standInEnded(queue);
}
