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

/** The keys of a guard. */
export interface ProcessHold {
  /** Undefined until they are acquired. */
  guard: Guard | undefined;
}

/**
 * Makes a guard before its keys are acquired. After that only {@link ProcessHold.guard} is assigned: a call could overflow the
 * stack, and the keys would stay held (keeps T1).
 */
export let createProcessGuard: <M extends LockMode>(file: ProcessFile, hold: ProcessHold) => ProcessGuard<M>;

/** The class behind {@link ProcessGuard}. */
class HeldKeys<M extends LockMode = LockMode> implements Disposable {
  /**
   * See {@link threadBound}.
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

  /** The keys as they were passed, duplicates included; `['']` if none was. */
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
   * True when the thread or the process of an earlier exclusive holder ended without releasing: the protected data may be
   * half-written. All shared holders see it, and the first exclusive one.
   */
  get abandoned(): boolean {
    return this.#guard.abandoned;
  }

  /**
   * Fencing token: greater than the tokens of all earlier holders of these keys, across processes and restarts of the machine.
   * About the number of nanoseconds since 1970; `0n` without keys. Guards of one process that hold a key at the
   * same time may have equal tokens.
   */
  get token(): bigint {
    return (this.#token ??= this.#file.token(stripesOf(this.#guard)));
  }

  /** Releases the keys. Idempotent: it never releases keys that another holder has acquired since. */
  release(): void {
    const guard = this.#guard;
    if (!guard.held && takenBy(guard) === 0) return;
    this.#token ??= this.#file.token(stripesOf(guard));
    guard.release();
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
    createProcessGuard = (file, hold) => new HeldKeys(file, hold);
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
