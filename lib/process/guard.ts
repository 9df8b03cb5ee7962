import { inspect, type InspectOptions } from 'node:util';
import { expose } from '../common/exposed-class.js';
import { threadBound } from '../common/thread-bound.js';
import type { LockKey, LockMode } from '../common/types.js';
import type { ProcessFile } from '../engine/contract/process-locks.js';
import { stripesOf, takenBy, type Guard } from '../lock/guard.js';

const THREAD_BOUND = threadBound(
  'ProcessGuard',
  'pass the path of its lock instead, and create a ProcessLock there',
);

/** The keys that a {@link ProcessGuard} holds. */
export interface ProcessHold {
  /** The guard of the keys in this process. Undefined until the keys are acquired. */
  guard: Guard | undefined;
}

/**
 * Creates a guard before its keys are acquired. After the acquisition, only {@link ProcessHold.guard} is
 * assigned. A function call at that point could overflow the stack, and the keys would then stay held. So
 * this order preserves invariant T1 of `LockTable`.
 */
export let createProcessGuard: <M extends LockMode>(file: ProcessFile, hold: ProcessHold) => ProcessGuard<M>;

/** The implementation of {@link ProcessGuard}. */
class HeldKeys<M extends LockMode = LockMode> implements Disposable {
  /**
   * Makes structured clone refuse the guard: see {@link threadBound}.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  readonly #file: ProcessFile;
  readonly #hold: ProcessHold;
  #token: bigint | undefined = undefined;

  private constructor(file: ProcessFile, hold: ProcessHold) {
    this.#file = file;
    this.#hold = hold;
  }

  get #guard(): Guard {
    return this.#hold.guard!;
  }

  /** The keys as they were passed, duplicates included; `['']` if no key was passed. */
  get keys(): readonly LockKey[] {
    return this.#guard.keys;
  }

  /** The mode in which the guard was acquired. */
  get mode(): M {
    return this.#guard.mode as M;
  }

  /** True from the acquisition until {@link release}. */
  get held(): boolean {
    return this.#guard.held;
  }

  /**
   * True if the thread or the process of an earlier exclusive holder ended without releasing the key.
   * The protected data may then be half-written. All later shared holders get true, and so does the
   * first exclusive holder after them.
   */
  get abandoned(): boolean {
    return this.#guard.abandoned;
  }

  /**
   * The fencing token, which is greater than the tokens of all earlier holders of these keys,
   * across processes and restarts of the machine. The token is close to the number of nanoseconds
   * since 1970. A guard without keys has the token `0n`. Guards of one process that hold a key at
   * the same time may have equal tokens.
   */
  get token(): bigint {
    return (this.#token ??= this.#file.token(stripesOf(this.#guard)));
  }

  /**
   * Releases the keys. Idempotent: a second call does nothing, even if another holder
   * has acquired the keys in between.
   */
  release(): void {
    const guard = this.#guard;
    if (!guard.held && takenBy(guard) === 0) return;
    this.#token ??= this.#file.token(stripesOf(guard));
    guard.release();
  }

  /** Calls {@link release} at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.release();
  }

  /** The fields that `console.log` shows, with bytes as arrays of numbers, and the token as a string. */
  toJSON(): object {
    const { mode, held, abandoned, token } = this;
    const keys = this.keys.map((key) => (typeof key === 'object' ? Array.from(key) : key));
    return { keys, mode, held, abandoned, token: String(token) };
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { keys, mode, held, abandoned, token } = this;
    return `ProcessGuard ${inspect({ keys, mode, held, abandoned, token }, options)}`;
  }

  static {
    createProcessGuard = (file, hold) => new HeldKeys(file, hold);
  }
}

/** The public class of guards, for `instanceof`. Programs cannot construct guards. @hidden */
export const ProcessGuard = expose(
  HeldKeys,
  'ProcessGuard',
  'Illegal constructor: a ProcessGuard comes from an acquisition',
);
/**
 * Holds keys in mode `M` until the guard is released, or until its thread or process ends. All processes
 * respect the hold. Only acquisitions create guards. `guard instanceof ProcessGuard` works. A guard belongs
 * to its thread: posting it to another thread throws a DataCloneError.
 * @interface
 */
export type ProcessGuard<M extends LockMode = LockMode> = HeldKeys<M>;
