import type { StripedLockStats, StripeState } from '../../common/types.js';
import { sharedNow } from '../../common/host.js';
import type { CompareExchange } from '../../common/wasm-memory.js';
import {
  GRANTED,
  GRANTED_LATE,
  GRANTED_LATE_WITH_ABANDONED,
  GRANTED_WITH_ABANDONED,
  type AsyncWaiter,
  type Failure,
  type LockTable,
  type Outcome,
  type Request,
  type StripeCounts,
} from '../contract/engine.js';
import type { ExactKeys } from '../contract/exact-keys.js';
import { cellsOf } from '../contract/header.js';
import { wordIndex } from '../contract/layout.js';
import { EXCLUSIVE_MODE, type Mode } from '../contract/mode.js';
import { readStats } from '../contract/stats.js';
import type { TableMemory, TableShape } from '../contract/table-memory.js';
import type { Addon } from './addon.js';
import { NativeRecorder } from './contention.js';
import { LOCAL_TICKET } from './local-queue.js';
import { LocalWaits } from './local-waits.js';
import * as protocol from './protocol.js';
import { toStripeState, type AddonState } from './stripe-state.js';
import type { NativeThread } from './thread.js';

/** A lock's memory, after the addon has opened it. */
export interface OpenedMemory {
  /** The addon's number of the lock's table. */
  readonly table: number;
  readonly memory: TableMemory;
  readonly words: Int32Array;
  readonly shape: TableShape;
  readonly compareExchange: CompareExchange | undefined;
  /** The id of the arena that contains the memory; undefined if other threads may have access to the memory. */
  readonly own: readonly [low: number, high: number] | undefined;
  /**
   * Whether the keys are in a file. Other processes can also hold such keys, so each acquisition and release
   * goes through the addon.
   */
  readonly isOfFile?: boolean;
}

/** One thread's view of a lock on the native engine. The lock's queues are in the addon. */
export class NativeTable implements LockTable {
  readonly engine = 'native';
  readonly stripes: number;
  readonly limit: number;
  readonly words: Int32Array;
  readonly compareExchange: CompareExchange | undefined;
  readonly firstAddress: number;
  readonly cells: BigInt64Array;
  readonly slot: number;
  shares: Int32Array | undefined;
  readonly keys: ExactKeys | undefined;
  readonly contention: NativeRecorder;
  readonly tryEnter: ((stripe: number) => boolean) | undefined;
  readonly #thread: NativeThread;
  readonly #addon: Addon;
  readonly #table: number;
  readonly #local: LocalWaits;
  readonly #memory: TableMemory;
  readonly #isOfFile: boolean;
  /** Whether other threads may have access to the memory. */
  #shared: boolean;

  constructor(thread: NativeThread, opened: OpenedMemory) {
    const { table, memory, words, shape, compareExchange, own } = opened;
    const { stripes, exact, limit } = shape;
    this.stripes = stripes;
    this.limit = limit;
    this.words = words;
    this.compareExchange = compareExchange;
    this.firstAddress = words.byteOffset + wordIndex(0) * words.BYTES_PER_ELEMENT;
    this.cells = cellsOf(words.buffer, words.byteOffset);
    this.slot = thread.slot;
    this.#thread = thread;
    this.#addon = thread.addon;
    this.#table = table;
    this.#memory = memory;
    this.#isOfFile = opened.isOfFile === true;
    this.#shared = own === undefined;
    if (own !== undefined) this.#addon.own(table, ...own, memory.offset);
    this.#local = new LocalWaits({ number: table, stripes, words, cells: this.cells }, thread);
    this.contention = new NativeRecorder(this.#addon, table, words);
    this.keys = exact ? this.#exactKeys() : undefined;
    this.tryEnter = this.#isOfFile ? (stripe) => this.#addon.tryEnter(table, stripe) : undefined;
  }

  get memory(): TableMemory {
    if (!this.#shared) {
      this.#addon.share(this.#table);
      this.#shared = true;
    }
    return this.#memory;
  }

  openShares(): Int32Array {
    // The addon keeps the address of this memory. An ArrayBuffer could be detached, and the address would
    // become invalid. So this code uses a SharedArrayBuffer. The second half of the array is for the addon:
    // see `shareIntsFor` in `native/core/table/layout.h`.
    const memory = new SharedArrayBuffer(2 * this.stripes * Int32Array.BYTES_PER_ELEMENT);
    this.shares = this.#addon.openShares(this.#table, new Int32Array(memory));
    return this.shares;
  }

  hash(key: string | Uint8Array): number {
    return this.#addon.hash(key, this.stripes);
  }

  acquireSync(request: Request): Outcome {
    const { stripes, taken, mode, timeout, note } = request;
    const { code } = mode;
    if (taken > 0) this.#local.expose(stripes, taken);
    const { stripes: lists } = this.#thread;
    // The list of stripes is a reused array, so it is filled just before the addon's call. Code that a
    // debugger runs in between could overwrite the array.
    const call = (): number | Failure | undefined =>
      this.#addon.acquireSync(this.#table, lists.of(stripes), stripes.length, taken, code, timeout, note);
    // A single attempt does not block. After the addon's call, no function is called (preserves T1).
    const result = timeout > 0 ? this.#thread.whileBlocked(call) : call();
    switch (result) {
      case protocol.GRANTED:
        return GRANTED;
      case protocol.GRANTED_ABANDONED:
        return GRANTED_WITH_ABANDONED;
      case protocol.GRANTED_LATE:
        return GRANTED_LATE;
      case protocol.GRANTED_LATE_ABANDONED:
        return GRANTED_LATE_WITH_ABANDONED;
    }
    return (result as Failure | undefined) ?? { status: 'interrupted' };
  }

  acquireAsync(request: Request, waiter: AsyncWaiter): Outcome | undefined {
    const local = this.#local;
    if (this.#isOfFile) return this.#thread.acquireAsync(this.#table, waiter, waiter.timeout, -1, 0);
    if (waiter.only >= 0 && request.timeout > 0 && request.mode.code === EXCLUSIVE_MODE.code)
      return local.start(waiter);
    if (request.taken > 0) local.expose(request.stripes, request.taken);
    return local.startElsewhere(waiter);
  }

  acquiringAsync(): void {
    this.#thread.acquiringAsync();
  }

  cancel(waiter: AsyncWaiter): boolean {
    if (waiter.ticket > LOCAL_TICKET) return this.#thread.cancel(waiter);
    this.#local.cancel(waiter);
    return true;
  }

  release(stripe: number, mode: Mode): void {
    // The clock is read before the release, because the next holder may run before this thread continues.
    const at = this.contention.isOn ? sharedNow() : 0;
    if (mode.code !== EXCLUSIVE_MODE.code || this.#isOfFile || !this.#local.release(stripe))
      this.#thread.release(this.#table, stripe, mode);
    if (at === 0) return;
    try {
      this.contention.released(stripe, at, this.#local.next(stripe)?.begun);
    } catch {
      // The stripe is already released. Only the record of the release is lost (preserves T1).
    }
  }

  holders(stripe: number): number[] {
    return this.#addon.holders(this.#table, stripe);
  }

  stats(): StripedLockStats {
    const [waiting, contended] = this.#addon.locals(this.#table);
    const stats = readStats('native', this.stripes, this.#addon.held(this.#table), this.cells);
    return { ...stats, waiting: stats.waiting + waiting, contended: stats.contended + contended };
  }

  addNote(stripes: Int32Array, note: string): number {
    return this.#addon.addNote(this.#table, stripes, note);
  }

  removeNote(id: number): void {
    this.#addon.removeNote(this.#table, id);
  }

  counts(stripe: number): StripeCounts {
    return countsIn(this.#addon.counts(this.#table, stripe));
  }

  inspect(): StripeState[] {
    return this.#addon.inspect(this.#table).map((state) => this.#stateOf(state));
  }

  #stateOf(state: AddonState): StripeState {
    return toStripeState(state, this.limit, (stripe) => this.#local.waiting(stripe));
  }

  /** The exact keys of this table. The addon stores them (`native/core/table/key_table.h`). */
  #exactKeys(): ExactKeys {
    const addon = this.#addon;
    const table = this.#table;
    return {
      pin: (key, idle) => addon.pin(table, key, idle),
      unpin: (stripes, count) => addon.unpin(table, stripes, count),
      pinned: undefined,
      inUse: () => addon.inUse(table),
      counts: (key) => countsIn(addon.counts(table, key)),
      inspect: () =>
        addon.inspect(table).map((state) => {
          const { mode, holders, waiters } = this.#stateOf(state);
          return { key: state.key!, mode, holders, waiters };
        }),
    };
  }
}

function countsIn([word, waiting]: readonly [word: number, waiting: number]): StripeCounts {
  return { word, waiting };
}
