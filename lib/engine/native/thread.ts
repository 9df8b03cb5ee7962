import { threadId } from 'node:worker_threads';
import { Alarm } from '../../common/timers.js';
import { DeferredCall } from '../../common/deferred-call.js';
import { afterTurn, performance } from '../../common/host.js';
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
import { HandOvers, LocalQueue } from './local-queue.js';
import { LocalWaits } from './local-waits.js';
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

/** While other acquisitions of the thread wait, this many async ones may succeed in a row before the waiters are checked. */
const IN_A_ROW = 64;
/**
 * While acquisitions wait in the addon, the thread checks after this many milliseconds whether their stripes are idle: granted
 * to a thread that is busy computing and does not collect them. The interval doubles with each check, up to the longest,
 * because after a long wait the stripe is usually in use.
 */
const FIRST_LOOK = 25;
const LONGEST_LOOK = 200;
/** The addon's timeout for an acquisition that has none, but may be aborted by a signal. It never passes. */
const ENDLESS = Number.MAX_VALUE;

/** The initial length. V8 keeps an array of this length outside its heap. */
const SMALL = 64;

/**
 * Passes stripes to the addon: one as a number, several at the start of a reused array, until the next call. V8 would have to
 * move a new small array out of its heap for the addon, which costs more than the rest of the call.
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
 * This thread's side of the addon, for all of its tables: the slot and the pending acquisitions. It passes grants and timeouts
 * to the waiters, and keeps the event loop alive while acquisitions are pending.
 */
export class NativeThread {
  readonly addon: Addon;
  /** The number that the thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /**
   * The acquisitions that wait in the addon, indexed by ticket, which is the addon's id. Unused ids are undefined. The
   * references also keep their tables open.
   */
  readonly #waiters: (AsyncWaiter | undefined)[] = [];
  /** The number of acquisitions that wait in the addon. */
  #inAddon = 0;
  /** The number of pending acquisitions, in the addon and in JavaScript. */
  pending = 0;
  /** Whether the addon keeps the event loop alive for the pending acquisitions. */
  #isAlive = false;
  #lettingGo = false;
  /** The {@link LocalWaits} whose waiters this thread checks. The references prevent garbage collection of their tables. */
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
  /** Whether the thread is in a sync wait. If JavaScript runs then, a debugger runs it. */
  blocked = false;
  readonly handOvers = new HandOvers();
  /** The milliseconds until the waiters in JavaScript are checked. */
  #tick = Infinity;
  /** The buffer for entries from the addon: the id of a waiter, and a detail. */
  readonly #batch = new Int32Array(ENTRY_INTS * BATCH);
  readonly stripes = new StripeList();
  /**
   * Fires at the earliest deadline or the next check, on the clock of `performance.now()`. It does not keep the event loop
   * alive, because the pending acquisitions do.
   */
  readonly #alarm = new Alarm(() => this.#expire(), false);
  /**
   * Sets the alarm from a microtask, like all calls of the host's timers: see `DeadlineTimer`. It is scheduled before an
   * acquisition starts to wait, because scheduling can throw (T1).
   */
  readonly #arming = new DeferredCall(() => this.#arm());
  /** Whether {@link #settling} has anything to do. */
  #ready = false;
  /** Notifies this thread's own waiters of grants, before the thread returns to its event loop. */
  readonly #settling = new DeferredCall(() => {
    if (this.#ready) this.#settleReady();
  });
  #untilLook = FIRST_LOOK;
  /** The number of async acquisitions that the fast path has tried in a row while others waited in the addon. */
  #passedBy = 0;
  /** Starts the addon in this thread. Calls `afterGrants` whenever the addon has woken the event loop. */
  constructor(addon: Addon, afterGrants: () => void) {
    this.addon = addon;
    this.slot = addon.start(threadId, () => {
      // The addon reports later grants with another wake.
      try {
        this.#settleReady();
      } finally {
        afterGrants();
      }
    });
  }

  /**
   * See `LockTable.acquireAsync`. `waited`: the milliseconds for which the acquisition has waited in JavaScript; negative if it
   * is new. `arrival`: the number of waiters in the addon that had arrived before it, modulo ARRIVAL_MASK + 1.
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
    // From here on, only the addon is called (keeps T1).
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
   * See `LockTable.release`. This thread's own waiters are notified of a grant before the thread returns to its event loop.
   * `back`: the stripe is given back, because an acquisition is put off.
   */
  release(table: number, stripe: number, mode: Mode, back = false): void {
    // The microtask is scheduled before the release (keeps T1). If the release grants nothing to this thread, it does nothing.
    if (this.#inAddon > 0) this.#settling.schedule();
    if (this.addon.release(table, stripe, mode.code, back) === RELEASED_AND_READY) this.#ready = true;
  }

  /** See `LockTable.cancel`. */
  cancel(waiter: AsyncWaiter): boolean {
    const id = waiter.ticket;
    if (this.#waiters[id] !== waiter) return false;
    const { queue } = waiter;
    // If one of the next two calls throws, nothing that matters has changed. The addon's `cancel` does not throw (keeps T1).
    if (queue instanceof LocalQueue && queue.standIn === waiter) queue.local.replaceStandIn(queue);
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
   * Runs a call that blocks this thread. A blocked thread holds nothing for its waiters, so the stripes that it was handing
   * over to them are released first.
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

  /** Checks the deadlines of these waiters regularly, until no acquisition is pending. */
  list(local: LocalWaits): void {
    if (local.isListed) return;
    this.#locals.add(local);
    local.isListed = true;
  }

  /** Keeps the event loop alive. Call this before {@link pending} rises. */
  stayAlive(): void {
    if (this.#isAlive) return;
    this.addon.keepAlive(true);
    this.#isAlive = true;
  }

  /**
   * Call this before {@link pending} falls. If none is left, the event loop may end a turn later, because another acquisition
   * often waits by then.
   */
  prepareEnd(): void {
    if (this.pending !== 1 || this.#lettingGo) return;
    afterTurn(this.#letGo);
    this.#lettingGo = true;
  }

  /** Makes the alarm fire within this many milliseconds. It compares delays, because reading the clock would cost more. */
  ringWithin(delay: number): void {
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
   * Settles the waiters that the addon has put into the batch. All of them are removed before the first is settled, because
   * settling may run a diagnostics subscriber. That may do anything, such as cancel the others.
   */
  #settle(count: number, granted: boolean): void {
    const batch = this.#batch;
    if (count === 1) {
      const detail = batch[ENTRY_DETAIL]!;
      const waiter = this.#remove(batch[ENTRY_ID]!);
      standInLeft(waiter, granted);
      this.#settleOne(waiter, granted, detail);
    } else if (count > 1) {
      const entries = batch.slice(0, ENTRY_INTS * count);
      const waiters: AsyncWaiter[] = [];
      for (let i = 0; i < count; i++) waiters.push(this.#remove(entries[ENTRY_INTS * i + ENTRY_ID]!));
      // This follows the removal of all waiters, because a new stand-in may get the id of one of them.
      for (const waiter of waiters) standInLeft(waiter, granted);
      for (let i = 0; i < count; i++) {
        this.#settleOne(waiters[i]!, granted, entries[ENTRY_INTS * i + ENTRY_DETAIL]!);
      }
    }
  }

  /**
   * `detail` of a grant: whether an earlier holder's thread ended, and the draw for a profile; or the fault of a file. `detail`
   * of a timeout: the stripe that was not free.
   */
  #settleOne(waiter: AsyncWaiter, granted: boolean, detail: number): void {
    if (granted && (detail & ENTRY_FAILED) !== 0) {
      const fault = (detail & ~ENTRY_FAILED) >> FAULT_SHIFT;
      waiter.settle({ status: 'failed', fault, number: detail & ((1 << FAULT_SHIFT) - 1) });
    } else if (granted) {
      const { begun } = waiter;
      if (begun !== undefined) begun.draw = detail >> DRAW_SHIFT;
      waiter.settle((detail & 1) === 1 ? GRANTED_LATE_WITH_ABANDONED : GRANTED_LATE);
    } else waiter.settle({ status: 'timeout', stripe: detail, holders: waiter.table.holders(detail) });
  }

  /** If this throws, nothing has changed. */
  #remove(id: number): AsyncWaiter {
    const waiter = this.#waiters[id]!;
    this.prepareEnd();
    if (waiter.queue instanceof LocalWaits) waiter.queue.leftElsewhere(waiter);
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
      // A grant before the deadline counts, however late this thread processes it.
      this.#settleReady();
      let handedOver: number;
      do {
        handedOver = this.addon.expire(this.#batch);
        this.#settle(handedOver & ~MORE, false);
      } while ((handedOver & MORE) !== 0);
      if (this.#inAddon > 0) this.#lookForIdle();
      const time = performance.now();
      for (const local of this.#locals) this.#tick = Math.min(this.#tick, local.expire(time) - time);
    } finally {
      this.#arm();
    }
  }

  #lookForIdle(): void {
    this.#untilLook = Math.min(2 * this.#untilLook, LONGEST_LOOK);
    this.addon.lookForIdle();
    // The addon may have granted such a stripe to a waiter of this thread, even to one that has no time left.
    this.#settleReady();
  }
}

/** Updates the queue of a stand-in that has stopped waiting, before other code runs (keeps I9). */
function standInLeft(waiter: AsyncWaiter, granted: boolean): void {
  const { queue } = waiter;
  if (!(queue instanceof LocalQueue) || queue.standIn !== waiter) return;
  if (granted) queue.local.standInGranted(queue);
  else queue.local.standInEnded(queue);
}
