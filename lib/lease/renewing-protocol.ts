import type { LeaseStoreSource } from './contract/lease-store.js';
import type { Backoff } from './contract/options.js';
import type { Grant, LocalDeadline } from './hold.js';

/**
 * The messages between the thread that holds leases and the thread that renews them. Times are in
 * milliseconds, on the clock of `elapsed()`, which both threads read.
 */

/** A number that identifies a store, a lease or a call in these messages. No number is used twice. */
export type Id = number;

/** A command for the renewing thread. The thread answers a command that has a `call`. */
export type Command =
  | {
      /** Opens the holder's store again, in the renewing thread. */
      readonly op: 'open';
      readonly call: Id;
      readonly store: Id;
      readonly source: LeaseStoreSource & { readonly module: string };
      readonly backoff: Backoff;
      /** Whether the holder's clock keeps counting while the machine is suspended. */
      readonly countsSuspension: boolean;
    }
  | AddCommand
  | {
      /** Renews a lease once. The answer is true if the lease was extended. */
      readonly op: 'renew';
      readonly call: Id;
      readonly lease: Id;
      readonly ttl: number;
      /** The new `info` text of the lease; undefined keeps the current text. */
      readonly info: string | undefined;
    }
  /**
   * Stops the renewals of a lease. The answer follows when the store has answered all renewals that were
   * sent.
   */
  | { readonly op: 'remove'; readonly call: Id; readonly lease: Id }
  | { readonly op: 'close'; readonly store: Id };

/** Starts the automatic renewals of a lease. */
export interface AddCommand extends Grant {
  readonly op: 'add';
  readonly lease: Id;
  readonly store: Id;
  /** The memory of a {@link SharedDeadline}. */
  readonly deadline: SharedArrayBuffer;
}

/**
 * Reports an event of a lease to the thread of its holder. `error` has the form that `serializeError`
 * returns.
 */
export type LeaseReport =
  | { readonly op: 'renewed'; readonly lease: Id; readonly ttl: number }
  | { readonly op: 'failed'; readonly lease: Id; readonly error: unknown }
  | { readonly op: 'lost'; readonly lease: Id; readonly reason: string };

/** A message from the renewing thread. In an answer, `error` is undefined unless the command has failed. */
export type Report =
  | { readonly op: 'answered'; readonly call: Id; readonly result: boolean; readonly error: unknown }
  | LeaseReport;

const NANOSECONDS = 1e6;

/**
 * The local deadline of a lease, in memory that two threads share. The renewing thread sets the deadline
 * after each renewal. So the holder's thread reads the current deadline even right after its event loop was
 * blocked. The deadline is a time on the clock of `elapsed()`.
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

  /** Rounds the time down, so that the deadline is never too late. */
  set time(time: number) {
    Atomics.store(this.#cell, 0, BigInt(Math.floor(time * NANOSECONDS)));
  }
}
