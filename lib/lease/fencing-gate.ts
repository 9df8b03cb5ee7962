import { inspect, type InspectOptions } from 'node:util';
import { checkCount, checkOptionsObject, type Names } from '../common/checks.js';
import { invalidArgType, outOfRange } from '../common/errors.js';
import { inspectBound, threadBound } from '../common/thread-bound.js';
import type { HandleOf } from '../common/types.js';
import type { GateTable } from '../engine/contract/lease-table.js';
import { leaseEngine } from '../engine/select.js';
import { StaleTokenError } from './contract/errors.js';
import { checkKey, type FencingToken } from './contract/lease-store.js';
import { checkHandle, numberOf, type HandleFields } from './handle.js';

const THREAD_BOUND = threadBound('FencingGate', 'pass its handle, and open it there with FencingGate.from()');

const KIND = 'stripelock/fencing-gate';
const DEFAULT_CAPACITY = 65_536;
const MOST_CAPACITY = 2 ** 24;
const MOST_TOKEN = 2n ** 64n;

/** Options of `new FencingGate(options)`. */
export interface FencingGateOptions {
  /**
   * The maximum number of keys that the gate remembers, 1 … 16_777_216. Default 65_536. A full gate of that
   * size takes about 10 MB.
   */
  capacity?: number;
}

interface GateHandle extends HandleFields {
  readonly kind: typeof KIND;
  readonly capacity: number;
}

class OpenedGate {
  constructor(readonly gate: GateTable) {}
}

/**
 * Remembers the highest token of each key, for all threads. A protected resource calls {@link admit} before
 * each write. No other write may come between the admission and the write. If several threads write, do both
 * under a lock that all of them take (`lock.withLockSync(key, () => { gate.admit(key, token); write(); })`).
 * If only one thread writes, do not `await` anything between the two.
 *
 * Memory is bounded. A full gate forgets keys with low tokens. If the gate may have forgotten a key,
 * it refuses each token of the key that may be stale. So the gate never admits a stale token. But the
 * gate may refuse the holder of a forgotten key, although the key has no later holder. That holder
 * must then acquire a new lease.
 */
export class FencingGate {
  /**
   * An enumerable property that cannot be cloned, so that structured clone refuses the whole object.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  /**
   * The value with which another thread opens this gate: see {@link FencingGate.from}. It is
   * structured-cloneable.
   */
  readonly handle: HandleOf<'stripelock/fencing-gate'>;
  readonly #gate: GateTable;

  /** Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. */
  constructor(options?: FencingGateOptions) {
    const opened =
      (options as unknown) instanceof OpenedGate ? (options as unknown as OpenedGate) : create(options);
    const { id, name } = leaseEngine();
    this.#gate = opened.gate;
    const { number, capacity } = opened.gate;
    this.handle = Object.freeze<GateHandle>({ kind: KIND, engine: name, id, number, capacity });
  }

  /**
   * Opens the same gate in another thread, or again in this one. Throws a TypeError for a value that is not a
   * handle. Throws a LockError (ERR_LOCK_ENGINE) for a handle of another process, or if one of the two
   * threads could not load the addon.
   */
  static from(handle: HandleOf<'stripelock/fencing-gate'>): FencingGate {
    const fields = checkHandle(handle, KIND, 'the handle of a FencingGate') as GateHandle;
    const capacity = checkCount(fields.capacity, 'handle.capacity', MOST_CAPACITY);
    const gate = leaseEngine().openGate(capacity, numberOf(fields));
    return new FencingGate(new OpenedGate(gate) as FencingGateOptions);
  }

  /** The number of keys that the gate remembers. */
  get size(): number {
    return this.#gate.size;
  }

  /**
   * Admits a write with this token. Throws a StaleTokenError (code ERR_STALE_TOKEN) if any thread has
   * admitted a higher token for the key before. If the gate has forgotten the key, throws if a higher token
   * may have been admitted. The same token is admitted any number of times.
   */
  admit(key: string, token: FencingToken): void {
    checkKey(key);
    if (typeof token !== 'bigint') throw invalidArgType('token', 'a bigint', token);
    if (token < 0n || token >= MOST_TOKEN) throw outOfRange('token', 'a bigint from 0 to 2^64 - 1', token);
    const newest = this.#gate.admit(key, token);
    if (newest !== undefined) throw new StaleTokenError(key, token, newest);
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspectBound(this, options);
  }
}

const NAMES: Names<FencingGateOptions> = { capacity: true };

function create(options: FencingGateOptions | undefined): OpenedGate {
  checkOptionsObject(options, NAMES);
  const capacity =
    options?.capacity === undefined
      ? DEFAULT_CAPACITY
      : checkCount(options.capacity, 'options.capacity', MOST_CAPACITY);
  return new OpenedGate(leaseEngine().openGate(capacity));
}
