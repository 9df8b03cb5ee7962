import { threadId } from 'node:worker_threads';
import { Alarm } from '../../common/alarm.js';
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
  ENTRY_ID,
  ENTRY_INTS,
  GRANTED_ABANDONED,
  MORE,
  RELEASED_AND_READY,
} from './protocol.js';

/** While other acquisitions of the thread wait, this many async ones may succeed in a row before the waiters are checked. */
const IN_A_ROW = 64;
/**
 * While acquisitions are pending, this thread checks after this many milliseconds whether what they wait for is idle,
 * handed to a thread that is busy computing. The time doubles with each check, up to the longest: after a long wait,
 * the stripe is usually in use.
 */
const FIRST_LOOK = 25;
const LONGEST_LOOK = 200;
/** The timeout that the addon gets for an acquisition that may be aborted. It never passes. */
const ENDLESS = Number.MAX_VALUE;

/** The initial room: more than an Int32Array can have within V8's heap. */
const SMALL = 64;

/**
 * Stripes as the addon reads them, until the next call: one as it is, several at the start of an array that is used again
 * and again. For a new small array, V8 would have to move it out of its heap for the addon, which costs more than the
 * rest of the call.
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
 * One thread as the addon knows it, for all of the thread's tables: its slot, and its pending acquisitions. It hands grants
 * and timeouts to waiters, and keeps the event loop alive while any are pending.
 */
export class NativeThread {
  readonly addon: Addon;
  /** What the thread writes into the word of a stripe that it holds exclusively. */
  readonly slot: number;
  /** The index is the addon's id, which is their ticket; unused ids are undefined. Keeps their tables open, too. */
  readonly #waiters: (AsyncWaiter | undefined)[] = [];
  /** How many these are. */
  #inAddon = 0;
  /** How many acquisitions are pending, in the addon and in JavaScript. */
  pending = 0;
  /** Whether the addon keeps the event loop alive for them. */
  #isAlive = false;
  #lettingGo = false;
  /** The tables with acquisitions that wait in JavaScript: this keeps them from being collected. */
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
  /**
   * Whether the thread is in a sync wait: only a debugger's code can run then. Still set after a `vm` timeout has ended
   * the wait, until the event loop turns.
   */
  blocked = false;
  readonly handOvers = new HandOvers();
  /** The milliseconds until what waits in JavaScript is looked at. */
  #tick = Infinity;
  /** Entries from the addon: an id and a detail about it. */
  readonly #batch = new Int32Array(ENTRY_INTS * BATCH);
  readonly stripes = new StripeList();
  /**
   * Rings for the earliest deadline or the next check, on the clock of `performance.now()`. The pending waiters keep the
   * event loop alive; the alarm may outlast it.
   */
  readonly #alarm = new Alarm(() => this.#expire(), false);
  /**
   * Sets the alarm, before there is a deadline. Not at once: a stack overflow in the host's timers can break them for good.
   */
  readonly #arming = new DeferredCall(() => this.#arm());
  /** Whether {@link #settling} needs to check anything. */
  #ready = false;
  /** Tells this thread's own waiters of grants before the thread returns to its event loop. */
  readonly #settling = new DeferredCall(() => {
    if (this.#ready) this.#settleReady();
  });
  #untilLook = FIRST_LOOK;
  /** How many async acquisitions the fast path has tried while others were pending. */
  #passedBy = 0;
  /** Starts the addon in this thread. Calls `afterGrants` whenever the addon has woken the event loop. */
  constructor(addon: Addon, afterGrants: () => void) {
    this.addon = addon;
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
    // From here on this calls nothing but the addon (keeps T1).
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
   * See `LockTable.release`. This thread's own waiters learn of a grant before it goes back to its event loop. `back`: for
   * an acquisition that is put off.
   */
  release(table: number, stripe: number, mode: Mode, back = false): void {
    // Before the release, as this may overflow the stack (keeps T1). If it grants nothing to this thread, the microtask
    // does nothing.
    if (this.#inAddon > 0) this.#settling.schedule();
    if (this.addon.release(table, stripe, mode.code, back) === RELEASED_AND_READY) this.#ready = true;
  }

  /** See `LockTable.cancel`. */
  cancel(waiter: AsyncWaiter): boolean {
    const id = waiter.ticket;
    if (this.#waiters[id] !== waiter) return false;
    const { queue } = waiter;
    // These may overflow the stack, but then they have changed nothing that matters; the addon does not (keeps T1).
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

  /** While the thread blocks, it holds nothing for its waiters: what was handed over within it goes to others. */
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

  /** From now on the deadlines of what waits there are looked at, until nothing is pending. */
  list(local: LocalWaits): void {
    if (local.isListed) return;
    this.#locals.add(local);
    local.isListed = true;
  }

  /** Before {@link pending} rises. */
  stayAlive(): void {
    if (this.#isAlive) return;
    this.addon.keepAlive(true);
    this.#isAlive = true;
  }

  /** Before {@link pending} falls. The event loop is let go a turn later: often another one waits by then. */
  prepareEnd(): void {
    if (this.pending !== 1 || this.#lettingGo) return;
    afterTurn(this.#letGo);
    this.#lettingGo = true;
  }

  /** Has the alarm ring after this many milliseconds at the latest. Reading the clock would cost more than this check. */
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
   * Settles the waiters that the addon has put into the batch. It removes all of them before it settles the first.
   * Settling may run a diagnostics subscriber, which may do anything, including cancel the others.
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
      // Only now: another one may get the id of one of these.
      for (const waiter of waiters) standInLeft(waiter, granted);
      for (let i = 0; i < count; i++) {
        this.#settleOne(waiters[i]!, granted, entries[ENTRY_INTS * i + ENTRY_DETAIL]!);
      }
    }
  }

  /** The detail: of a grant, whether an earlier holder's thread ended, and what was drawn for a profile; of a timeout, the stripe that was not free. */
  #settleOne(waiter: AsyncWaiter, granted: boolean, detail: number): void {
    if (granted) {
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
      // A grant in time counts, however late this thread learns of it.
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
    // Waiters that have no time left may also have been granted what others did not take.
    this.#settleReady();
  }
}

/** Looks after the queue of a stand-in before other code runs (keeps I9). */
function standInLeft(waiter: AsyncWaiter, granted: boolean): void {
  const { queue } = waiter;
  if (!(queue instanceof LocalQueue) || queue.standIn !== waiter) return;
  if (granted) queue.local.standInGranted(queue);
  else queue.local.standInEnded(queue);
}
