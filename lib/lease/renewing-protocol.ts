import type { LeaseStoreSource } from './contract/lease-store.js';
import type { Backoff } from './contract/options.js';
import type { Grant, LocalDeadline } from './hold.js';

/**
 * The messages between the thread that holds leases and the thread that renews them. Times are in milliseconds, on the
 * clock of `elapsed()`, which both threads read.
 */

/** A number that names a store, a lease or a call between the two threads. It is never used again. */
export type Id = number;

/** A command for the renewing thread. If it has a `call`, the thread answers it. */
export type Command =
  | {
      /** Opens a store again. */
      readonly op: 'open';
      readonly call: Id;
      readonly store: Id;
      readonly source: LeaseStoreSource & { readonly module: string };
      readonly backoff: Backoff;
      /** Whether the holder's clock counts while the machine is suspended. */
      readonly countsSuspension: boolean;
    }
  | AddCommand
  | {
      /** The result: whether the lease was extended. */
      readonly op: 'renew';
      readonly call: Id;
      readonly lease: Id;
      readonly ttl: number;
      /** Undefined to leave it as it is. */
      readonly info: string | undefined;
    }
  /** Ends the renewals. Answered when the store has answered those that were sent. */
  | { readonly op: 'remove'; readonly call: Id; readonly lease: Id }
  | { readonly op: 'close'; readonly store: Id };

/** Renews a lease from now on. */
export interface AddCommand extends Grant {
  readonly op: 'add';
  readonly lease: Id;
  readonly store: Id;
  /** The memory of a {@link SharedDeadline}. */
  readonly deadline: SharedArrayBuffer;
}

/** An event of a lease. Errors have the form that `serializeError` returns. */
export type LeaseReport =
  | { readonly op: 'renewed'; readonly lease: Id; readonly ttl: number }
  | { readonly op: 'failed'; readonly lease: Id; readonly error: unknown }
  | { readonly op: 'lost'; readonly lease: Id; readonly reason: string };

/** `error`: undefined unless the command has failed. */
export type Report =
  | { readonly op: 'answered'; readonly call: Id; readonly result: boolean; readonly error: unknown }
  | LeaseReport;

const NANOSECONDS = 1e6;

/**
 * The local deadline of a lease, as a point in time of `elapsed()`. The renewing thread writes it; the holder reads it,
 * even right after its event loop was blocked.
 */
export class SharedDeadline implements LocalDeadline {
  readonly memory: SharedArrayBuffer;
  readonly #cell: BigInt64Array;

  constructor(memory = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#cell = new BigInt64Array(memory);
  }

  get time(): number {
    return Number(Atomics.load(this.#cell, 0)) / NANOSECONDS;
  }

  /** Rounds down, so that it is never later than it should be. */
  set time(time: number) {
    Atomics.store(this.#cell, 0, BigInt(Math.floor(time * NANOSECONDS)));
  }
}
