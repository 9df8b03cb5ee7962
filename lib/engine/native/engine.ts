import { threadId } from 'node:worker_threads';
import { Alarm } from '../../common/alarm.js';
import { LockError } from '../../common/errors.js';
import { defer, performance } from '../../common/host.js';
import type { AsyncWaiter, Engine, LockTable, Outcome, Request } from '../contract/engine.js';
import { createMemory, fillHeader } from '../contract/header.js';
import { byteLengthFor, ENGINE_NATIVE, REGISTRY_INDEX } from '../contract/layout.js';
import type { TableMemory, TableSpan } from '../contract/table-memory.js';
import { loadAddon, type Addon } from './addon.js';
import { NativeLeases } from './leases.js';
import { runningEngine } from './running-engine.js';
import { NativeTable } from './table.js';
import { ThreadArena } from './thread-arena.js';

/** Waiters that one call into the addon settles. */
const BATCH = 128;
/** Stripes that there is room for from the start. More than an Int32Array can have within V8's heap. */
const SMALL_SET = 64;
/** So many async acquisitions may be had in a row, while others of the thread wait, before these get a look. */
const IN_A_ROW = 64;
/**
 * While acquisitions are pending, this thread looks so often, in milliseconds, whether what they wait for lies idle with a
 * thread that computes. Twice as long each time, up to the latter, as most that lasts is a stripe that is in use.
 */
const FIRST_LOOK = 25;
const LONGEST_LOOK = 200;
/** For the addon, a time that never passes, of an acquisition that may be aborted. */
const ENDLESS = Number.MAX_VALUE;

/** Throws where the addon cannot be loaded, or where another version of this package has started it. */
export function loadNativeEngine(): NativeEngine {
  return runningEngine(loadAddon(), (addon) => new NativeEngine(addon));
}

/**
 * This thread's side of the addon: hands grants and timeouts to waiters, and keeps the event loop alive while
 * any are pending.
 */
export class NativeEngine implements Engine {
  readonly name = 'native';
  readonly addon: Addon;
  readonly leases: NativeLeases;
  readonly slot: number;
  readonly #registry: readonly [number, number];
  readonly #arena: ThreadArena;
  /** By the addon's id, which is their ticket; unused ids are undefined. Keeps their tables open, too. */
  readonly #waiters: (AsyncWaiter | undefined)[] = [];
  #pending = 0;
  /** Pairs of an id and what the addon says with it. */
  readonly #batch = new Int32Array(2 * BATCH);
  /** See {@link stripesFor}. */
  #stripes = new Int32Array(SMALL_SET);
  readonly #tables = new Map<number, WeakRef<NativeTable>>();
  readonly #closed = new FinalizationRegistry((table: number) => {
    this.addon.close(table);
  });
  /** For the earliest deadline or the next look, on performance.now()'s clock. What is pending keeps the loop alive. */
  readonly #alarm = new Alarm(() => this.#expire(), false);
  #arming = false;
  readonly #armLater = (): void => {
    this.#arming = false;
    this.#arm();
  };
  /** Whether {@link #settleLater} is to be called, and whether it has anything to look for. */
  #settling = false;
  #ready = false;
  #untilLook = FIRST_LOOK;
  /** Async acquisitions that the fast path tried while others were pending. */
  #passedBy = 0;
  readonly #settleLater = (): void => {
    this.#settling = false;
    if (this.#ready) this.#settleReady();
  };

  constructor(addon: Addon) {
    this.addon = addon;
    this.#registry = addon.registryId();
    this.#arena = new ThreadArena(addon);
    this.leases = new NativeLeases(addon);
    this.slot = addon.start(threadId, () => {
      // In this order: after it, whoever has news of either kind sends another wake.
      try {
        this.#settleReady();
      } finally {
        this.leases.deliver();
      }
    });
    this.leases.start();
  }

  create(stripes: number): TableMemory {
    const arena = this.#arena.get();
    const offset = arena?.allocate(stripes);
    if (offset === undefined) {
      const buffer = createMemory(ENGINE_NATIVE, stripes);
      new Int32Array(buffer).set(this.#registry, REGISTRY_INDEX);
      return { arena: undefined, buffer, offset: 0 };
    }
    const { buffer, memory } = arena!;
    fillHeader(buffer, offset, ENGINE_NATIVE, stripes);
    new Int32Array(buffer, offset).set(this.#registry, REGISTRY_INDEX);
    return { arena: memory, buffer: undefined, offset };
  }

  open(memory: TableMemory, { buffer, offset }: TableSpan, stripes: number): LockTable {
    const words = new Int32Array(buffer, offset, byteLengthFor(stripes) / Int32Array.BYTES_PER_ELEMENT);
    if (words[REGISTRY_INDEX] !== this.#registry[0] || words[REGISTRY_INDEX + 1] !== this.#registry[1]) {
      throw new LockError(
        'ERR_LOCK_ENGINE',
        'the lock was made by another copy of the stripelock addon; all threads must load the same installation',
      );
    }
    const table = this.addon.open(words, stripes);
    if (table < 0)
      throw new LockError('ERR_LOCK_ENGINE', 'the lock is in use with another number of stripes');
    let opened = this.#tables.get(table)?.deref();
    if (!opened) {
      const compareExchange = this.#arena.compareExchangeIn(memory.arena, new Int32Array(buffer));
      opened = new NativeTable(this, { table, memory, words, stripes, compareExchange });
      this.#tables.set(table, new WeakRef(opened));
      this.#closed.register(opened, table);
    } else {
      this.addon.close(table);
    }
    return opened;
  }

  /**
   * Stripes as the addon reads them, until the next call: one as it is, several at the start of an array that is used
   * again and again. A new small array would have to be moved out of V8's heap for the addon, which costs more than
   * the rest of the call.
   */
  stripesFor(stripes: readonly number[]): number | Int32Array {
    if (stripes.length === 1) return stripes[0]!;
    if (stripes.length > this.#stripes.length) this.#stripes = new Int32Array(stripes.length);
    this.#stripes.set(stripes);
    return this.#stripes;
  }

  /** See `LockTable.acquireAsync`. */
  acquireAsync(table: number, request: Request, waiter: AsyncWaiter): Outcome | undefined {
    const { stripes, taken, shared, timeout, note } = request;
    const look = this.#untilLook;
    // Who comes later and waits as long is due later. Most are such, and asking the clock would cost them more than this.
    if (timeout > 0 && (timeout < look ? timeout : look) < this.#alarm.delay && !this.#arming)
      this.#armSoon();
    const list = this.stripesFor(stripes);
    const longest = timeout === Infinity && request.abortable === true ? ENDLESS : timeout;
    const result = this.addon.acquireAsync(table, list, stripes.length, taken, shared, longest, note);
    // From here on only the addon is called (keeps T1).
    if (typeof result !== 'number') return result;
    if (result < 0) return { status: 'granted', abandoned: result === -2 };
    waiter.ticket = result;
    this.#waiters[result] = waiter;
    if (++this.#pending === 1) this.addon.keepAlive(true);
    return undefined;
  }

  /** See `LockTable.release`. Grants to this thread's own waiters are settled before it goes back to its event loop. */
  release(table: number, stripe: number, shared: boolean): void {
    // Before the release, as it may overflow (keeps T1); where nobody of this thread is granted, it comes to nothing.
    if (this.#pending > 0 && !this.#settling) this.#settleSoon();
    if (this.addon.release(table, stripe, shared) === 2) this.#ready = true;
  }

  cancel(waiter: AsyncWaiter): boolean {
    const id = waiter.ticket;
    if (this.#waiters[id] !== waiter) return false;
    // This may overflow, and has changed nothing then; the addon does not (keeps T1).
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
    let count: number;
    do {
      count = this.addon.take(this.#batch);
      this.#settle(count, (waiter, abandoned) =>
        waiter.settle({ status: 'granted', abandoned: abandoned === 1 }),
      );
    } while (count === BATCH);
  }

  /**
   * Settles the waiters that the addon has put into the batch. All are taken out before the first is settled: that may
   * run a diagnostics subscriber, and so anything, a cancellation of the others included.
   */
  #settle(count: number, settle: (waiter: AsyncWaiter, detail: number) => void): void {
    const batch = this.#batch;
    if (count === 1) {
      const detail = batch[1]!;
      settleOne(this.#remove(batch[0]!), detail, settle);
    } else if (count > 1) {
      const details = batch.slice(0, 2 * count);
      const waiters: AsyncWaiter[] = [];
      for (let i = 0; i < count; i++) waiters.push(this.#remove(batch[2 * i]!));
      for (let i = 0; i < count; i++) settleOne(waiters[i]!, details[2 * i + 1]!, settle);
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

  /** Before there is a deadline. Not at once: a stack overflow in the host's timers can leave these broken for good. */
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
      // What was granted in time is granted, however late this thread comes to see it.
      this.#settleReady();
      let count: number;
      do {
        count = this.addon.expire(this.#batch);
        this.#settle(count, (waiter, stripe) =>
          waiter.settle({ status: 'timeout', stripe, holders: waiter.table.holders(stripe) }),
        );
      } while (count === BATCH);
      if (this.#pending > 0) this.#lookForIdle();
    } finally {
      this.#arm();
    }
  }

  #lookForIdle(): void {
    this.#untilLook = Math.min(2 * this.#untilLook, LONGEST_LOOK);
    this.addon.lookForIdle();
    // Those that had no time left, too, may have been granted what others did not come for.
    this.#settleReady();
  }
}

/** Where it fails, it is tried once more, and the others do not notice. */
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
