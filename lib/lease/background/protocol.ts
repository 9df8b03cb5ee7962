import type { LeaseStoreSource } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import type { RenewalTerms } from '../hold/hold.js';

/**
 * What the thread that holds leases and the thread that renews them tell each other. Times are in milliseconds; points in
 * time are those of `elapsed()`, which both threads read.
 */

/** A number that names a store, or a lease, between the two threads. It is never used again. */
export type Id = number;

/** How the store is opened again. */
export interface OpenMessage {
  readonly op: 'open';
  readonly store: Id;
  readonly source: LeaseStoreSource & { readonly module: string };
  readonly backoff: Backoff;
  /** Whether the holder's clock counts while the machine is suspended. */
  readonly countsSuspension: boolean;
}

/** A lease that was granted. */
export interface AddMessage {
  readonly op: 'add';
  readonly lease: Id;
  readonly store: Id;
  readonly key: string;
  readonly owner: string;
  readonly terms: RenewalTerms;
  readonly since: number;
  /** The memory of a {@link SharedDeadline}. */
  readonly deadline: SharedArrayBuffer;
}

export interface RenewMessage {
  readonly op: 'renew';
  readonly lease: Id;
  readonly call: Id;
  readonly ttl: number;
  /** Undefined to leave it as it is. */
  readonly info: string | undefined;
}

/** `remove`: renew it no more. Answered when nothing is on its way to the store any more. */
export type Command =
  | OpenMessage
  | AddMessage
  | RenewMessage
  | { readonly op: 'remove'; readonly lease: Id }
  | { readonly op: 'close'; readonly store: Id };

/** Errors are as `serializeError` has made them. */
export type LeaseReport =
  | { readonly op: 'renewed'; readonly lease: Id; readonly ttl: number }
  | { readonly op: 'failed'; readonly lease: Id; readonly error: unknown }
  | { readonly op: 'lost'; readonly lease: Id; readonly reason: string }
  | { readonly op: 'removed'; readonly lease: Id }
  | {
      readonly op: 'answered';
      readonly lease: Id;
      readonly call: Id;
      readonly renewed: boolean;
      readonly error: unknown;
    };

export type Report = { readonly op: 'opened'; readonly store: Id; readonly error: unknown } | LeaseReport;

const NANOSECONDS = 1e6;

/**
 * The local deadline of a lease, as a point in time of `elapsed()`. The renewing thread writes it; the holder reads it,
 * even right after its event loop was blocked.
 */
export class SharedDeadline {
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
