import { inspect, type InspectOptions } from 'node:util';
import { copyOfBytes, isBytes } from '../common/bytes.js';
import { LockError } from '../common/errors.js';
import { expose } from '../common/exposed-class.js';
import { defer } from '../common/host.js';
import type { LockKey, LockMode } from '../common/types.js';
import type { AsyncWaiter, Outcome, Request } from '../engine/contract/engine.js';
import { MODE_MASK, modeCoded, type Mode } from '../engine/contract/mode.js';
import { overflowError, FastPath } from '../engine/fast-path.js';
import type { KeySet } from './key-set.js';
import { traceReleased } from './trace.js';

/**
 * What a guard's state says: its mode's code, flags, and above them its only stripe, or how many of several are taken.
 *
 * A const enum, so that the numbers themselves stand in the JavaScript: V8 inlines an acquisition and its release as a whole
 * only while they have few bytes of its code, and each use of a module's constant has five more.
 */
const enum State {
  MODE = MODE_MASK,
  HELD = 4,
  ABANDONED = 8,
  TRACED = 16,
  /** The keys are a `KeySet`. */
  MANY = 32,
  FLAGS = 63,
  NUMBER_SHIFT = 6,
  TRACED_OR_MANY = TRACED | MANY,
  /** Separate functions handle guards with any of these flags. So the code for the others stays short. */
  NOT_PLAIN = MODE | HELD | TRACED | MANY,
}

/** Makes a guard that holds nothing yet. Call this before the first stripe is taken, so that nothing can fail afterwards. */
export let createGuard: <K extends LockKey, M extends LockMode>(
  path: FastPath,
  key: K,
  stripe: number,
  mode: Mode,
) => Guard<K, M>;

/** The same for any number of keys. */
export let createGuardOfSet: <K extends LockKey, M extends LockMode>(
  path: FastPath,
  set: KeySet<K>,
  mode: Mode,
) => Guard<K, M>;

/**
 * The fast path: one compare-and-swap per stripe. False at the first stripe that is not free. The guard keeps the
 * stripes before it: {@link continueTaking} passes them on, or {@link AcquiredGuard.release} gives them back.
 */
export let tryTake: (guard: Guard) => boolean;

/** The mode that a guard was asked for. */
export let modeOf: (guard: Guard) => Mode;

/** The stripes of a guard, ascending, for the engine to go on with. Must not be changed. */
export let stripesOf: (guard: Guard) => readonly number[];

/** The only stripe of a guard, or -1 if it has several, or none. */
export let stripeOf: (guard: Guard) => number;

/**
 * A copy of the keys if they can change later: bytes can be written to, and their memory can be detached. Undefined if
 * they cannot.
 */
export let copyOfKeys: (guard: Guard) => readonly LockKey[] | undefined;

/** How many stripes, from the front, the fast path took. */
export let takenBy: (guard: Guard) => number;

/**
 * Has the engine continue what the fast path began: in a sync wait, or for a waiter, which may then be pending.
 * Afterwards the guard has what the outcome says, or nothing while the waiter is pending. No function is called between
 * the engine's answer and that (keeps T1). If this throws, the engine has changed nothing, and the guard has what it
 * had.
 */
export let continueTaking: {
  (guard: Guard, request: Request): Outcome;
  (guard: Guard, request: Request, waiter: AsyncWaiter): Outcome | undefined;
};

/** From now on the guard reports its release to the trace. */
export let markTraced: (guard: Guard) => void;

/** Records that the engine took all stripes for a pending waiter. */
export let grant: (guard: Guard, abandoned: boolean) => void;

const { take, takeIn, takeMany, giveBack, giveBackIn, giveBackMany, nextToken } = FastPath;

/** The tokens of guards. Most are never asked for, so a guard has no field for its own. */
const tokens = new WeakMap<object, bigint>();

/** What {@link Guard} is. */
class AcquiredGuard<K extends LockKey = LockKey, M extends LockMode = LockMode> implements Disposable {
  /**
   * An own, enumerable property that structured clone refuses (see {@link FastPath}), because a copy of a guard in
   * another thread would hold nothing. The other fields are private and few: the compare-and-swap waits for their
   * writes, which are a large part of the cost of an acquisition.
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

  /** Ascending, no duplicates. Taken in this order, released in reverse. */
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
   * True when the thread of an earlier exclusive holder, or of the holder of a permit, ended without releasing: what the lock
   * protects may be half-written. Told to shared holders and to the first exclusive one.
   */
  get abandoned(): boolean {
    return (this.#state & State.ABANDONED) !== 0;
  }

  /**
   * Fencing token: greater than that of every earlier holder of any of these stripes. The first one of a lock is the
   * wall clock, in nanoseconds, when the lock was made. Assigned at the first read, which must happen while the guard
   * is held: otherwise it throws a LockError with code ERR_LOCK_NOT_HELD. Once read, it stays readable.
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
   * Gives the stripes back. Idempotent: does nothing to stripes that somebody else has acquired since. If it throws, which
   * only a stack overflow makes it do, and {@link held} is still true, it has done nothing and can be called again.
   */
  release(): void {
    const state = this.#state;
    if ((state & State.NOT_PLAIN) === State.HELD) {
      // Here and below, the state changes after the stripe. So a stack overflow before that leaves a guard that can
      // still be released. No function is called between the two (keeps T1).
      giveBack(this.path, state >> State.NUMBER_SHIFT);
      this.#state = state ^ State.HELD;
    } else {
      AcquiredGuard.#releaseSlow(this);
    }
  }

  // This and the next are static, because private methods would cost each guard a field.
  static #releaseSlow(this: void, guard: AcquiredGuard): void {
    const state = guard.#state;
    if ((state & State.HELD) === 0 && takenBy(guard) === 0) return;
    if ((state & State.TRACED_OR_MANY) === 0) {
      giveBackIn(guard.path, state >> State.NUMBER_SHIFT, state & State.MODE);
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
   * A stack overflow can end it between two stripes. Then the guard does not hold its keys any more, and gives back the rest
   * from the microtask queue, or when it is released again. If none was given back, it still holds them.
   */
  static #releaseMany(this: void, guard: AcquiredGuard): void {
    const state = guard.#state;
    const count = state >> State.NUMBER_SHIFT;
    const left = giveBackMany(guard.path, (guard.#key as KeySet).stripes, count, state & State.MODE);
    if (left === 0 || left < count)
      guard.#state = (state & State.FLAGS & ~State.HELD) | (left << State.NUMBER_SHIFT);
    if (left === 0) return;
    if (left < count) defer(() => guard.release(), undefined);
    throw overflowError;
  }

  /** {@link release}, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.release();
  }

  /** The same as `console.log` shows; bytes as numbers. */
  toJSON(): object {
    const { stripes, mode, held, abandoned } = this;
    const keys = this.keys.map((key: LockKey) => (typeof key === 'object' ? Array.from(key) : key));
    return { keys, stripes, mode, held, abandoned };
  }

  /**
   * What `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { keys, stripes, mode, held, abandoned } = this;
    return `Guard ${inspect({ keys, stripes, mode, held, abandoned }, options)}`;
  }

  /** {@link tryTake} for guards that are shared or have several keys. */
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
    // No function is called from the last change of a word to that of the state (keeps T1).
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

    continueTaking = ((guard: Guard, request: Request, waiter?: AsyncWaiter) => {
      const outcome = FastPath.acquire(guard.path, request, waiter);
      const many = (guard.#state & State.MANY) !== 0;
      const bare = many ? guard.#state & State.FLAGS : guard.#state;
      if (outcome === undefined || outcome.status !== 'granted') {
        guard.#state = bare;
      } else {
        const all = many ? (guard.#key as KeySet).stripes.length << State.NUMBER_SHIFT : 0;
        guard.#state = bare | all | State.HELD | (outcome.abandoned ? State.ABANDONED : 0);
      }
      return outcome;
    }) as typeof continueTaking;

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

/** The class of guards, as users know it: only acquisitions make guards. @hidden */
export const Guard = expose(AcquiredGuard, 'Guard', 'Illegal constructor: a Guard comes from an acquisition');
/**
 * Holds its keys, of type `K`, in mode `M`, until released. Only acquisitions make guards; `instanceof` works. Typed, so
 * that a function can ask for proof: `write(row, guard: Guard<string, 'exclusive'>)`. A guard of no keys holds nothing,
 * and is valid. It belongs to its thread: posting it to another one throws a DataCloneError.
 * @interface
 */
export type Guard<K extends LockKey = LockKey, M extends LockMode = LockMode> = AcquiredGuard<K, M>;
