import { threadId } from 'node:worker_threads';
import { Alarm } from '../../common/alarm.js';
import { defer, performance } from '../../common/host.js';
import type { AsyncWaiter, Outcome, Request } from '../contract/engine.js';
import type { Mode } from '../contract/mode.js';
import type { Addon } from './addon.js';
import {
  BATCH,
  ENTRY_DETAIL,
  ENTRY_ID,
  ENTRY_INTS,
  GRANTED_ABANDONED,
  MORE,
  RELEASED_AND_READY,
} from './protocol.js';

/** The initial room for stripes: more than an Int32Array can have within V8's heap. */
const SMALL_SET = 64;
/** While other acquisitions of the thread wait, so many async ones may succeed in a row before the waiters are checked. */
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
  /** Entries from the addon: an id and a detail about it. */
  readonly #batch = new Int32Array(ENTRY_INTS * BATCH);
  /** See {@link stripesFor}. */
  #stripes = new Int32Array(SMALL_SET);
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
  /** How many async acquisitions the fast path has tried while others were pending. */
  #passedBy = 0;
  readonly #settleLater = (): void => {
    this.#settling = false;
    if (this.#ready) this.#settleReady();
  };

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
   * Stripes as the addon reads them, until the next call: one as it is, several at the start of an array that is used
   * again and again. For a new small array, V8 would have to move it out of its heap for the addon, which costs more
   * than the rest of the call.
   */
  stripesFor(stripes: readonly number[]): number | Int32Array {
    if (stripes.length === 1) return stripes[0]!;
    if (stripes.length > this.#stripes.length) this.#stripes = new Int32Array(stripes.length);
    this.#stripes.set(stripes);
    return this.#stripes;
  }

  /** See `LockTable.acquireAsync`. */
  acquireAsync(table: number, request: Request, waiter: AsyncWaiter): Outcome | undefined {
    const { stripes, taken, mode, timeout, note } = request;
    const look = this.#untilLook;
    // A later waiter with the same timeout is due later. Most waiters are like that, and reading the clock would cost
    // them more than this check.
    if (timeout > 0 && (timeout < look ? timeout : look) < this.#alarm.delay && !this.#arming)
      this.#armSoon();
    const list = this.stripesFor(stripes);
    const { code } = mode;
    const longest = timeout === Infinity && request.abortable === true ? ENDLESS : timeout;
    const result = this.addon.acquireAsync(table, list, stripes.length, taken, code, longest, note);
    // From here on this calls nothing but the addon (keeps T1).
    if (typeof result !== 'number') return result;
    if (result < 0) return { status: 'granted', abandoned: result === GRANTED_ABANDONED };
    waiter.ticket = result;
    this.#waiters[result] = waiter;
    if (++this.#pending === 1) this.addon.keepAlive(true);
    return undefined;
  }

  /** See `LockTable.release`. This thread's own waiters learn of a grant before it goes back to its event loop. */
  release(table: number, stripe: number, mode: Mode): void {
    // Before the release, as this may overflow the stack (keeps T1). If it grants nothing to this thread, the microtask
    // does nothing.
    if (this.#pending > 0 && !this.#settling) this.#settleSoon();
    if (this.addon.release(table, stripe, mode.code) === RELEASED_AND_READY) this.#ready = true;
  }

  /** See `LockTable.cancel`. */
  cancel(waiter: AsyncWaiter): boolean {
    const id = waiter.ticket;
    if (this.#waiters[id] !== waiter) return false;
    // This may overflow the stack, but then it has changed nothing; the addon does not (keeps T1).
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

  #settleSoon(): void {
    defer(this.#settleLater, undefined);
    this.#settling = true;
  }

  #settleReady(): void {
    this.#ready = false;
    let handedOver: number;
    do {
      handedOver = this.addon.takeGrants(this.#batch);
      this.#settle(handedOver & ~MORE, (waiter, abandoned) =>
        waiter.settle({ status: 'granted', abandoned: abandoned === 1 }),
      );
    } while ((handedOver & MORE) !== 0);
  }

  /**
   * Settles the waiters that the addon has put into the batch. It removes all of them before it settles the first.
   * Settling may run a diagnostics subscriber, which may do anything, including cancel the others.
   */
  #settle(count: number, settle: (waiter: AsyncWaiter, detail: number) => void): void {
    const batch = this.#batch;
    if (count === 1) {
      const detail = batch[ENTRY_DETAIL]!;
      settleOne(this.#remove(batch[ENTRY_ID]!), detail, settle);
    } else if (count > 1) {
      const entries = batch.slice(0, ENTRY_INTS * count);
      const waiters: AsyncWaiter[] = [];
      for (let i = 0; i < count; i++) waiters.push(this.#remove(batch[ENTRY_INTS * i + ENTRY_ID]!));
      for (let i = 0; i < count; i++) {
        settleOne(waiters[i]!, entries[ENTRY_INTS * i + ENTRY_DETAIL]!, settle);
      }
    }
  }

  #remove(id: number): AsyncWaiter {
    const waiter = this.#waiters[id]!;
    this.#waiters[id] = undefined;
    if (--this.#pending === 0) {
      this.#untilLook = FIRST_LOOK;
      this.addon.keepAlive(false);
    }
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
    if (this.#pending === 0) return;
    const delay = Math.min(this.addon.nextDeadline(), this.#untilLook);
    this.#alarm.setFor(performance.now() + delay, delay);
  }

  #expire(): void {
    try {
      // A grant in time counts, however late this thread learns of it.
      this.#settleReady();
      let handedOver: number;
      do {
        handedOver = this.addon.expire(this.#batch);
        this.#settle(handedOver & ~MORE, (waiter, stripe) =>
          waiter.settle({ status: 'timeout', stripe, holders: waiter.table.holders(stripe) }),
        );
      } while ((handedOver & MORE) !== 0);
      if (this.#pending > 0) this.#lookForIdle();
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
