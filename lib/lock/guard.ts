import { inspect, type InspectOptions } from 'node:util';
import { copyOfBytes, isBytes } from '../common/bytes.js';
import { LockError } from '../common/errors.js';
import { expose } from '../common/exposed-class.js';
import { defer } from '../common/host.js';
import type { LockKey, LockMode } from '../common/types.js';
import type { AsyncWaiter, LockTable, Outcome, Request } from '../engine/contract/engine.js';
import { MODE_MASK, modeCoded, type Mode } from '../engine/contract/mode.js';
import { overflowError, FastPath } from '../engine/fast-path.js';
import type { KeySet } from './key-set.js';
import { traceReleased } from './trace.js';

/**
 * The layout of a guard's state, which is a single integer. The lowest bits are the code of the guard's mode,
 * and the next bits are flags. The remaining bits are a number. For a guard of one key, this number is the
 * key's stripe. For a guard of a list of keys, this number is the count of stripes that the guard has taken.
 *
 * This is a const enum because the compiler replaces its members with their numbers. A constant imported from
 * a module would instead add five bytes of bytecode at each use, and V8 inlines the methods for acquiring and
 * releasing only if their bytecode is short.
 */
const enum State {
  MODE = MODE_MASK,
  HELD = 4,
  ABANDONED = 8,
  TRACED = 16,
  /** The guard was created for a list of keys, a `KeySet`. */
  MANY = 32,
  FLAGS = 63,
  NUMBER_SHIFT = 6,
  TRACED_OR_MANY = TRACED | MANY,
  /**
   * A guard with any of these bits set is handled by separate functions. So the functions for all other
   * guards stay short.
   */
  NOT_PLAIN = MODE | HELD | TRACED | MANY,
}

/**
 * Creates a guard of one key. The guard holds nothing yet. Call this before the stripe is taken, because
 * creating an object can throw (T1 of `LockTable`).
 */
export let createGuard: <K extends LockKey, M extends LockMode>(
  path: FastPath,
  key: K,
  stripe: number,
  mode: Mode,
) => Guard<K, M>;

/** Like {@link createGuard}, for a list of keys. */
export let createGuardOfSet: <K extends LockKey, M extends LockMode>(
  path: FastPath,
  set: KeySet<K>,
  mode: Mode,
) => Guard<K, M>;

/**
 * The fast path: takes each stripe of the guard with one compare-and-swap. At the first stripe that is not
 * free, it stops and returns false. The guard then keeps the stripes that it has already taken, until
 * {@link continueTaking} passes them to the engine or {@link AcquiredGuard.release} frees them.
 */
export let tryTake: (guard: Guard) => boolean;

/** The mode of a guard, whether the guard is held or not. */
export let modeOf: (guard: Guard) => Mode;

/** The stripes of a guard, ascending. The caller must not change them. */
export let stripesOf: (guard: Guard) => readonly number[];

/** The stripe of a guard that has exactly one stripe; otherwise -1. */
export let stripeOf: (guard: Guard) => number;

/**
 * A copy of the keys if any key is bytes, because the program can change or detach the bytes later. Undefined
 * if no key is bytes.
 */
export let copyOfKeys: (guard: Guard) => readonly LockKey[] | undefined;

/**
 * The number of stripes that a guard of a list of keys has taken. The guard takes its stripes in ascending
 * order. Always 0 for a guard of one key.
 */
export let takenBy: (guard: Guard) => number;

/**
 * Passes a guard to the engine, which takes the remaining stripes. Without a waiter, the call blocks this
 * thread until the outcome is known. With a waiter, the call may return undefined, and the engine settles the
 * waiter later.
 *
 * After a grant, the guard holds all its stripes. After any other outcome, it holds none. The guard's state
 * changes right after the engine returns, and no function is called in between (preserves T1 of `LockTable`).
 * If `continueTaking` throws, neither a stripe's word nor the guard's state has changed.
 */
export let continueTaking: {
  (guard: Guard, table: LockTable, request: Request): Outcome;
  (guard: Guard, table: LockTable, request: Request, waiter: AsyncWaiter): Outcome | undefined;
};

/**
 * The counterpart of {@link tryTake} for keys that other processes can also hold: see `LockTable.tryEnter`.
 * Supports only a guard of one key in exclusive mode, and returns false for any other guard. Preserves T1 of
 * `LockTable`, as {@link continueTaking} does.
 */
export let tryEnter: (guard: Guard, table: LockTable) => boolean;

/** Marks the guard as traced. Its release is then reported to the trace. */
export let markTraced: (guard: Guard) => void;

/**
 * Marks the guard of a pending waiter as held. Call this after the engine has taken all stripes of the guard.
 */
export let grant: (guard: Guard, abandoned: boolean) => void;

const { take, takeIn, takeMany, release, releaseIn, releaseMany, nextToken } = FastPath;

/** The tokens of guards. Guards have no field for the token, because most tokens are never read. */
const tokens = new WeakMap<object, bigint>();

/** The implementation of {@link Guard}. */
class AcquiredGuard<K extends LockKey = LockKey, M extends LockMode = LockMode> implements Disposable {
  /**
   * Makes structured clone refuse the guard, because a copy in another thread would hold nothing. Structured
   * clone reads only own enumerable properties, so `path` must be such a property (see {@link FastPath}).
   *
   * Only two other fields exist, and both are private. The compare-and-swap of an acquisition waits until all
   * fields are written, and these writes are a large part of the acquisition's cost.
   *
   * @internal
   */
  protected readonly path: FastPath;
  readonly #key: K | KeySet<K>;
  #state: number;

  private constructor(path: FastPath, key: K | KeySet<K>, state: number) {
    this.path = path;
    this.#key = key;
    this.#state = state;
  }

  /** The keys as they were passed, duplicates included. */
  get keys(): readonly K[] {
    return (this.#state & State.MANY) !== 0 ? (this.#key as KeySet<K>).keys.slice() : [this.#key as K];
  }

  /**
   * The stripes of the keys, ascending and without duplicates. An acquisition takes them in this order, and a
   * release frees them in reverse order.
   */
  get stripes(): readonly number[] {
    const state = this.#state;
    return (state & State.MANY) !== 0
      ? (this.#key as KeySet<K>).stripes.slice()
      : [state >> State.NUMBER_SHIFT];
  }

  /** The mode in which the guard was acquired. */
  get mode(): M {
    return modeCoded(this.#state & State.MODE).name as M;
  }

  /** True from the acquisition until {@link release}. */
  get held(): boolean {
    return (this.#state & State.HELD) !== 0;
  }

  /**
   * True if the thread of an earlier holder ended without releasing an exclusive hold or a permit. The data
   * that the lock protects may then be half-written. All later shared holders get true, and so does the
   * first exclusive holder after them.
   */
  get abandoned(): boolean {
    return (this.#state & State.ABANDONED) !== 0;
  }

  /**
   * The fencing token, which is greater than the tokens of all earlier holders of any of these stripes. The
   * first read assigns the token. If the guard is not held, the first read throws a LockError
   * (ERR_LOCK_NOT_HELD). Later reads return the same token, even after the release. A new lock's tokens start
   * at the current time in nanoseconds since 1970.
   */
  get token(): bigint {
    let token = tokens.get(this);
    if (token === undefined) {
      if (!this.held) {
        throw new LockError('ERR_LOCK_NOT_HELD', 'a token must be read first while the guard is held');
      }
      token = nextToken(this.path);
      tokens.set(this, token);
    }
    return token;
  }

  /**
   * Releases the keys. Idempotent: a second call does nothing, even if the keys were acquired again in
   * between. Only a stack overflow makes this method throw. If {@link held} is still true after the
   * exception, nothing was released, and the program can call this method again.
   */
  release(): void {
    const state = this.#state;
    if ((state & State.NOT_PLAIN) === State.HELD) {
      // Here and below, no function is called between the change of the stripe's word and the change of
      // `#state` (preserves T1 of `LockTable`). So even after a stack overflow, the state is right, and the
      // guard can still be released.
      release(this.path, state >> State.NUMBER_SHIFT);
      this.#state = state ^ State.HELD;
    } else {
      AcquiredGuard.#releaseSlow(this);
    }
  }

  // Here and below, private functions are static, because private methods would add a field to each guard.
  static #releaseSlow(this: void, guard: AcquiredGuard): void {
    const state = guard.#state;
    if ((state & State.HELD) === 0 && takenBy(guard) === 0) return;
    if ((state & State.TRACED_OR_MANY) === 0) {
      releaseIn(guard.path, state >> State.NUMBER_SHIFT, state & State.MODE);
      guard.#state = state ^ State.HELD;
    } else {
      AcquiredGuard.#releaseTracedOrMany(guard);
    }
  }

  static #releaseTracedOrMany(this: void, guard: AcquiredGuard): void {
    if ((guard.#state & State.TRACED) !== 0) traceReleased(guard);
    guard.#state &= ~State.TRACED;
    if ((guard.#state & State.MANY) === 0) AcquiredGuard.#releaseSlow(guard);
    else AcquiredGuard.#releaseMany(guard);
  }

  /**
   * Releases the stripes of a list of keys. If a stack overflow interrupts the release when only some stripes
   * are free, the guard no longer counts as held. A microtask then frees the remaining stripes, unless
   * another call of `release` frees them first.
   */
  static #releaseMany(this: void, guard: AcquiredGuard): void {
    const state = guard.#state;
    const count = state >> State.NUMBER_SHIFT;
    const left = releaseMany(guard.path, (guard.#key as KeySet).stripes, count, state & State.MODE);
    if (left === 0 || left < count)
      guard.#state = (state & State.FLAGS & ~State.HELD) | (left << State.NUMBER_SHIFT);
    if (left === 0) return;
    if (left < count) defer(() => guard.release(), undefined);
    throw overflowError;
  }

  /** Calls {@link release} at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.release();
  }

  /** The fields that `console.log` shows, with bytes as arrays of numbers. */
  toJSON(): object {
    const { stripes, mode, held, abandoned } = this;
    const keys = this.keys.map((key: LockKey) => (typeof key === 'object' ? Array.from(key) : key));
    return { keys, stripes, mode, held, abandoned };
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { keys, stripes, mode, held, abandoned } = this;
    return `Guard ${inspect({ keys, stripes, mode, held, abandoned }, options)}`;
  }

  /** The part of {@link tryTake} for guards that are not in exclusive mode or that have a list of keys. */
  static #tryTakeSlow(this: void, guard: AcquiredGuard): boolean {
    const state = guard.#state;
    if ((state & State.MANY) !== 0) return AcquiredGuard.#tryTakeMany(guard);
    if (!takeIn(guard.path, state >> State.NUMBER_SHIFT, state & State.MODE)) return false;
    guard.#state = state | State.HELD;
    return true;
  }

  static #tryTakeMany(this: void, guard: AcquiredGuard): boolean {
    const state = guard.#state;
    const { stripes } = guard.#key as KeySet;
    const code = state & State.MODE;
    // No function is called between the last change of a stripe's word and the change of
    // `#state` (preserves T1 of `LockTable`).
    const taken = takeMany(guard.path, stripes, code);
    const all = taken === stripes.length;
    guard.#state = state | (taken << State.NUMBER_SHIFT) | (all ? State.HELD : 0);
    return all;
  }

  static {
    createGuard = (path, key, stripe, mode) =>
      new AcquiredGuard(path, key, (stripe << State.NUMBER_SHIFT) | mode.code);

    createGuardOfSet = (path, set, mode) => new AcquiredGuard(path, set, State.MANY | mode.code);

    tryTake = (guard) => {
      const state = guard.#state;
      if ((state & State.NOT_PLAIN) !== 0) return AcquiredGuard.#tryTakeSlow(guard);
      if (!take(guard.path, state >> State.NUMBER_SHIFT)) return false;
      guard.#state = state | State.HELD;
      return true;
    };

    modeOf = (guard) => modeCoded(guard.#state & State.MODE);

    stripesOf = (guard) => {
      const state = guard.#state;
      return (state & State.MANY) !== 0 ? (guard.#key as KeySet).stripes : [state >> State.NUMBER_SHIFT];
    };

    stripeOf = (guard) => {
      const state = guard.#state;
      if ((state & State.MANY) === 0) return state >> State.NUMBER_SHIFT;
      const { stripes } = guard.#key as KeySet;
      return stripes.length === 1 ? stripes[0]! : -1;
    };

    copyOfKeys = (guard) => {
      const many = (guard.#state & State.MANY) !== 0;
      if (!many) return isBytes(guard.#key) ? [copyOfBytes(guard.#key)] : undefined;
      const { keys } = guard.#key as KeySet;
      return keys.some(isBytes) ? keys.map((key) => (isBytes(key) ? copyOfBytes(key) : key)) : undefined;
    };

    takenBy = (guard) => ((guard.#state & State.MANY) !== 0 ? guard.#state >> State.NUMBER_SHIFT : 0);

    continueTaking = ((guard: Guard, table: LockTable, request: Request, waiter?: AsyncWaiter) => {
      const many = (guard.#state & State.MANY) !== 0;
      // The fast path has already allocated the shares, unless it overflowed the stack.
      if (request.mode.counted && table.shares === undefined) table.openShares();
      const outcome = waiter === undefined ? table.acquireSync(request) : table.acquireAsync(request, waiter);
      const bare = many ? guard.#state & State.FLAGS : guard.#state;
      if (outcome === undefined || outcome.status !== 'granted') {
        guard.#state = bare;
      } else {
        const all = many ? (guard.#key as KeySet).stripes.length << State.NUMBER_SHIFT : 0;
        guard.#state = bare | all | State.HELD | (outcome.abandoned ? State.ABANDONED : 0);
      }
      return outcome;
    }) as typeof continueTaking;

    tryEnter = (guard, table) => {
      const state = guard.#state;
      if (table.tryEnter === undefined || (state & State.NOT_PLAIN) !== 0) return false;
      if (!table.tryEnter(state >> State.NUMBER_SHIFT)) return false;
      guard.#state = state | State.HELD;
      return true;
    };

    markTraced = (guard) => {
      guard.#state |= State.TRACED;
    };

    grant = (guard, abandoned) => {
      const many = (guard.#state & State.MANY) !== 0;
      const taken = many ? (guard.#key as KeySet).stripes.length << State.NUMBER_SHIFT : 0;
      guard.#state |= State.HELD | (abandoned ? State.ABANDONED : 0) | taken;
    };
  }
}

/** The public class of guards, for `instanceof`. Programs cannot construct guards. @hidden */
export const Guard = expose(AcquiredGuard, 'Guard', 'Illegal constructor: a Guard comes from an acquisition');
/**
 * A hold of keys of type `K` in mode `M`. The hold lasts until the guard is released. Only acquisitions
 * create guards. `guard instanceof Guard` works. A function can require a guard as proof that its caller
 * holds the keys: `write(row, guard: Guard<string, 'exclusive'>)`. A guard of no keys is valid and holds
 * nothing. A guard belongs to its thread: posting it to another thread throws a DataCloneError.
 * @interface
 */
export type Guard<K extends LockKey = LockKey, M extends LockMode = LockMode> = AcquiredGuard<K, M>;
