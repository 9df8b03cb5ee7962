import { inspect, type InspectOptions } from 'node:util';
import { expose } from '../common/exposed-class.js';
import { threadBound } from '../common/thread-bound.js';
import type { LockKey, LockMode } from '../common/types.js';
import type { ProcessHold, ProcessLockEngine } from '../engine/contract/process-locks.js';

const THREAD_BOUND = threadBound(
  'ProcessGuard',
  'pass the path of its lock instead, and create a ProcessLock there',
);

/** Makes a guard of what an acquisition holds, or will hold. */
export let createProcessGuard: <M extends LockMode>(
  engine: ProcessLockEngine,
  hold: ProcessHold,
  keys: readonly LockKey[],
  mode: M,
) => ProcessGuard<M>;

/** What {@link ProcessGuard} is. */
class HeldKeys<M extends LockMode = LockMode> implements Disposable {
  /**
   * See {@link threadBound}.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  readonly #engine: ProcessLockEngine;
  readonly #hold: ProcessHold;
  readonly #keys: readonly LockKey[];
  readonly #mode: M;

  private constructor(engine: ProcessLockEngine, hold: ProcessHold, keys: readonly LockKey[], mode: M) {
    this.#engine = engine;
    this.#hold = hold;
    this.#keys = keys;
    this.#mode = mode;
  }

  /** The keys as they were passed, duplicates included; `['']` if none was. */
  get keys(): readonly LockKey[] {
    return this.#keys.slice();
  }

  /** The mode in which the guard was acquired. */
  get mode(): M {
    return this.#mode;
  }

  /** True from the acquisition until {@link release}. */
  get held(): boolean {
    return this.#hold.id >= 0;
  }

  /**
   * True when an earlier exclusive holder ended without releasing, its process or its thread: what the lock protects may be
   * half-written. Shared holders and the first exclusive holder see it.
   */
  get abandoned(): boolean {
    return this.#hold.abandoned;
  }

  /**
   * Fencing token: greater than the tokens of all earlier holders of these keys, across processes and restarts of the machine.
   * About the number of nanoseconds since 1970.
   */
  get token(): bigint {
    return this.#hold.token;
  }

  /** Gives the keys back. Idempotent: does nothing to keys that somebody else has acquired since. */
  release(): void {
    this.#engine.release(this.#hold);
  }

  /** {@link release}, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.release();
  }

  /** The same as `console.log` shows; bytes as numbers, and the token as text. */
  toJSON(): object {
    const { mode, held, abandoned, token } = this;
    const keys = this.keys.map((key) => (typeof key === 'object' ? Array.from(key) : key));
    return { keys, mode, held, abandoned, token: String(token) };
  }

  /**
   * What `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { keys, mode, held, abandoned, token } = this;
    return `ProcessGuard ${inspect({ keys, mode, held, abandoned, token }, options)}`;
  }

  static {
    createProcessGuard = (engine, hold, keys, mode) => new HeldKeys(engine, hold, keys, mode);
  }
}

/** The class of guards, as users know it: only acquisitions make guards. @hidden */
export const ProcessGuard = expose(
  HeldKeys,
  'ProcessGuard',
  'Illegal constructor: a ProcessGuard comes from an acquisition',
);
/**
 * Holds its keys, in mode `M`, in all processes, until it is released or its thread or process ends. Only acquisitions make
 * guards; `instanceof` works. It belongs to its thread: posting it to another one throws a DataCloneError.
 * @interface
 */
export type ProcessGuard<M extends LockMode = LockMode> = HeldKeys<M>;
