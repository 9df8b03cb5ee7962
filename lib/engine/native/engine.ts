import { threadId } from 'node:worker_threads';
import { LockError } from '../../errors.js';
import type { AsyncWaiter, Engine, LockTable } from '../engine.js';
import { createMemory } from '../header.js';
import { ENGINE_NATIVE, REGISTRY_INDEX } from '../layout.js';
import { loadAddon, type Addon } from './addon.js';
import { NativeLeases } from './leases.js';
import { NativeTable } from './table.js';

/** Waiters that one call into the addon settles. */
const BATCH = 128;
/** The longest delay of a timer: longer ones fire at once. */
const LONGEST_DELAY = 2 ** 31 - 1;

/** Throws where the addon cannot be loaded. */
export function loadNativeEngine(): NativeEngine {
  return new NativeEngine(loadAddon());
}

interface NativeWaiter {
  readonly waiter: AsyncWaiter;
  /** Also keeps the table open while it is waited for. */
  readonly table: NativeTable;
}

interface Settled extends NativeWaiter {
  /** What the addon says with it: whether it was told of an abandoned stripe, or which one it could not have. */
  readonly detail: number;
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
  /** By the addon's id, which is their ticket; unused ids are undefined. */
  readonly #waiters: (NativeWaiter | undefined)[] = [];
  #pending = 0;
  readonly #batch = new Int32Array(2 * BATCH);
  readonly #tables = new Map<number, WeakRef<NativeTable>>();
  readonly #closed = new FinalizationRegistry((table: number) => {
    this.addon.close(table);
  });
  #timer: NodeJS.Timeout | undefined;
  /** When the timer is due, on performance.now()'s clock. */
  #timerDue = Infinity;
  #settling = false;
  readonly #settleLater = (): void => {
    this.#settling = false;
    this.#settleReady();
  };

  constructor(addon: Addon) {
    this.addon = addon;
    this.#registry = addon.registryId();
    this.leases = new NativeLeases(addon);
    this.slot = addon.start(threadId, () => {
      // In this order: after it, whoever has news of either kind sends another wake.
      this.#settleReady();
      this.leases.deliver();
    });
  }

  create(stripes: number): SharedArrayBuffer {
    const buffer = createMemory(ENGINE_NATIVE, stripes);
    new Int32Array(buffer).set(this.#registry, REGISTRY_INDEX);
    return buffer;
  }

  open(buffer: SharedArrayBuffer, stripes: number): LockTable {
    const words = new Int32Array(buffer);
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
      opened = new NativeTable(this, table, buffer, stripes);
      this.#tables.set(table, new WeakRef(opened));
      this.#closed.register(opened, table);
    } else {
      this.addon.close(table);
    }
    return opened;
  }

  add(id: number, waiter: AsyncWaiter, table: NativeTable, timeout: number): void {
    waiter.ticket = id;
    this.#waiters[id] = { waiter, table };
    if (++this.#pending === 1) this.addon.keepAlive(true);
    if (timeout !== Infinity) this.#arm(timeout);
  }

  cancel(waiter: AsyncWaiter): boolean {
    const id = waiter.ticket;
    if (this.#waiters[id]?.waiter !== waiter) return false;
    this.#remove(id);
    return this.addon.cancel(id);
  }

  /** Grants to this thread's own waiters are settled before it goes back to its event loop. */
  settleSoon(): void {
    if (this.#settling) return;
    this.#settling = true;
    queueMicrotask(this.#settleLater);
  }

  #settleReady(): void {
    let batch: Settled[];
    do {
      batch = this.#takeOut(this.addon.take(this.#batch));
      for (const { waiter, detail } of batch) waiter.settle({ status: 'granted', abandoned: detail === 1 });
    } while (batch.length === BATCH);
  }

  /**
   * The waiters that the addon has put into the batch. All are taken out before the first is settled: that may run
   * a diagnostics subscriber, and so anything, a cancellation of the others included.
   */
  #takeOut(count: number): Settled[] {
    const batch: Settled[] = [];
    for (let i = 0; i < count; i++) {
      batch.push({ ...this.#remove(this.#batch[2 * i]!), detail: this.#batch[2 * i + 1]! });
    }
    return batch;
  }

  #remove(id: number): NativeWaiter {
    const entry = this.#waiters[id]!;
    this.#waiters[id] = undefined;
    if (--this.#pending === 0) this.addon.keepAlive(false);
    return entry;
  }

  /** One timer for all waiters, due at the earliest deadline. */
  #arm(delay: number): void {
    const due = performance.now() + delay;
    if (due >= this.#timerDue) return;
    clearTimeout(this.#timer);
    this.#timerDue = due;
    // Whole milliseconds up, so that it does not come before the deadline only to be set again.
    this.#timer = setTimeout(() => this.#expire(), Math.min(Math.ceil(delay), LONGEST_DELAY));
    // What is pending keeps the loop alive; the timer may outlast it.
    this.#timer.unref();
  }

  #expire(): void {
    this.#timer = undefined;
    this.#timerDue = Infinity;
    // What was granted in time is granted, however late this thread comes to see it.
    this.#settleReady();
    let batch: Settled[];
    do {
      batch = this.#takeOut(this.addon.expire(this.#batch));
      for (const { waiter, table, detail: stripe } of batch) {
        waiter.settle({ status: 'timeout', stripe, holders: table.holders(stripe) });
      }
    } while (batch.length === BATCH);
    const next = this.addon.nextDeadline();
    if (next !== Infinity) this.#arm(next);
  }
}
