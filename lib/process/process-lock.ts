import path from 'node:path';
import { inspect, type InspectOptions } from 'node:util';
import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { copyOfBytes, isBytes } from '../common/bytes.js';
import { callArguments, checkNames, type Names } from '../common/checks.js';
import { DeadlineTimer } from '../common/deadline-timer.js';
import type { Timed } from '../common/deadlines.js';
import type { LockError } from '../common/errors.js';
import { HostFinalizationRegistry, performance, resolved } from '../common/host.js';
import { isThenable, releasedTooEarly, runHeld } from '../common/run-held.js';
import { threadBound } from '../common/thread-bound.js';
import type { AcquireOptions, AsyncAcquireOptions, LockKey, LockMode, SyncResult } from '../common/types.js';
import { SHARED_MODE } from '../engine/contract/mode.js';
import type {
  ProcessHold,
  ProcessLockEngine,
  ProcessOutcome,
  ProcessUse,
  ProcessWaiter,
} from '../engine/contract/process-locks.js';
import { processLockEngine } from '../engine/select.js';
import { modeIn, signalIn, timeoutIn } from '../lock/options.js';
import { checkKey } from '../lock/stripe-index.js';
import { closedError, deadlockError, fileError, interruptedError, timeoutError } from './errors.js';
import { createProcessGuard, type ProcessGuard } from './guard.js';
import {
  ASYNC_ACQUISITION,
  ATTEMPT,
  resolveProcessLockOptions,
  SYNC_ACQUISITION,
  type ProcessLockOptions,
} from './options.js';

/** A thread that holds a key or waits for it. */
export interface ProcessHolder {
  /** The process. */
  pid: number;
  /** As `threadId` of `node:worker_threads` in that process. Where several of its threads share a key, that of the first. */
  threadId: number;
  /** `process.title` where the program has set it, else its command line; cut to about 120 bytes. */
  title: string;
  /** When it acquired the key, or began to wait, in milliseconds since 1970. */
  since: number;
}

/** A key that is held or waited for. */
export interface ProcessKeyState {
  /** Undefined if it is not known: a process shows the keys that it holds, up to 70 bytes each. */
  key: LockKey | undefined;
  /** The mode in which it is held. If it is not held, the mode of its waiters. */
  mode: LockMode;
  /** Who holds it. */
  holders: ProcessHolder[];
  /** Who waits for it: of each other process one thread. */
  waiters: ProcessHolder[];
}

/** Left out, the key is the empty one: for those who need but one lock in the file. */
const NO_KEY = '';

const THREAD_BOUND = threadBound(
  'ProcessLock',
  'pass lock.path instead, and create a ProcessLock of it there',
);

/**
 * Locks on keys between the processes of one machine, and between their threads. The kernel keeps them, as locks on bytes of
 * one file, and frees them when a process ends, however it ends. Equal keys are one lock in all processes that have the same
 * file open, unequal keys are not; the keys `1` and `'1'` differ. Any number of processes and threads make their own
 * `ProcessLock` with the same path; a child inherits nothing.
 *
 * Not reentrant, and not for files on another machine: use a lease there. It needs the native addon.
 */
export class ProcessLock implements AsyncDisposable {
  /** The file, as an absolute path. */
  readonly path: string;
  /** Shown in errors. */
  readonly name: string;
  /** Default time allowed for one whole acquisition, in milliseconds. */
  readonly timeout: number;
  /**
   * See {@link threadBound}.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  readonly #engine: ProcessLockEngine;
  readonly #file: number;
  readonly #pending = new Set<Pending>();
  #closed = false;

  /**
   * Opens the file, or makes it, without waiting for anybody who holds a key. Throws a TypeError or RangeError for bad
   * options, and a LockError (`ERR_LOCK_FILE_…`) if the file cannot be used, or (ERR_LOCK_ENGINE) without the addon.
   */
  constructor(options: ProcessLockOptions) {
    const { path: file, name, timeout, files } = resolveProcessLockOptions(options);
    this.path = file;
    this.name = name;
    this.timeout = timeout;
    this.#engine = processLockEngine();
    const opened = this.#engine.open(file, ownTitle(), files);
    if (typeof opened !== 'number') throw fileError(file, opened);
    this.#file = opened;
    const engine = this.#engine;
    collected.register(this, () => engine.close(opened), this);
  }

  /**
   * All keys or none, under one deadline, without blocking this thread. Keeps the event loop alive while it waits. Rejects
   * with a LockTimeoutError, with signal.reason, or with a LockError if the file cannot be used any more.
   */
  acquire<M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[] = NO_KEY,
    options?: AsyncAcquireOptions<M>,
  ): Promise<ProcessGuard<M>> {
    try {
      const mode = modeIn(options);
      const timeout = timeoutIn(options, this.timeout);
      const signal = signalIn(options);
      const wanted = this.#prepare(keys, options, ASYNC_ACQUISITION);
      if (signal?.aborted) return Promise.reject(signal.reason as Error);
      const hold = newHold();
      const guard = createProcessGuard(this.#engine, hold, wanted.shown, mode.name as M);
      const shared = mode === SHARED_MODE;
      const pending =
        timeout === 0
          ? undefined
          : new Pending(this.#engine, this.#pending, guard, hold, signal, timeout, (outcome) =>
              this.#errorOf(outcome, wanted, timeout),
            );
      const mayGiveUp = timeout !== Infinity || signal !== undefined;
      this.#refuseIfClosed();
      const outcome =
        pending === undefined
          ? this.#engine.attempt(this.#file, wanted.asked, shared, hold)
          : this.#engine.acquireAsync(this.#file, wanted.asked, shared, mayGiveUp, pending);
      // From here on this calls nothing that could overflow the stack, if it holds the keys (keeps T1).
      if (outcome.status === 'granted') return resolved(guard);
      if (outcome.status === 'pending') return pending!.promise as Promise<ProcessGuard<M>>;
      throw this.#errorOf(outcome, wanted, timeout);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * The same, blocking this thread. Throws a LockTimeoutError, or a DeadlockError if waiting could never end, as far as
   * threads of this process are concerned: if this same thread holds a key, or threads wait for each other in a cycle. A
   * cycle through other processes ends with the timeout.
   */
  acquireSync<M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[] = NO_KEY,
    options?: AcquireOptions<M>,
  ): ProcessGuard<M> {
    const mode = modeIn(options);
    const timeout = timeoutIn(options, this.timeout);
    const wanted = this.#prepare(keys, options, SYNC_ACQUISITION);
    const hold = newHold();
    const guard = createProcessGuard(this.#engine, hold, wanted.shown, mode.name as M);
    this.#refuseIfClosed();
    const outcome = this.#engine.acquireSync(this.#file, wanted.asked, mode === SHARED_MODE, timeout, hold);
    if (outcome.status === 'granted') return guard;
    throw this.#errorOf(outcome, wanted, timeout);
  }

  /**
   * Makes one attempt and never waits, so `mode` is its only option. Undefined if the keys are not free, or kept for a process that has waited. Throws a
   * LockError if the file cannot be used any more.
   */
  tryAcquire<M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[] = NO_KEY,
    options?: { mode?: M },
  ): ProcessGuard<M> | undefined {
    const mode = modeIn(options);
    const wanted = this.#prepare(keys, options, ATTEMPT);
    const hold = newHold();
    const guard = createProcessGuard(this.#engine, hold, wanted.shown, mode.name as M);
    this.#refuseIfClosed();
    const outcome = this.#engine.attempt(this.#file, wanted.asked, mode === SHARED_MODE, hold);
    if (outcome.status === 'granted') return guard;
    if (outcome.status === 'timeout') return undefined;
    throw this.#errorOf(outcome, wanted, 0);
  }

  /** Runs fn while holding the keys; releases however fn ends. Without keys: under the empty one, which excludes no other. */
  withLock<T>(fn: (guard: ProcessGuard<'exclusive'>) => T | PromiseLike<T>): Promise<T>;
  withLock<T>(
    keys: LockKey | readonly LockKey[],
    fn: (guard: ProcessGuard<'exclusive'>) => T | PromiseLike<T>,
  ): Promise<T>;
  withLock<T, M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[],
    options: AsyncAcquireOptions<M>,
    fn: (guard: ProcessGuard<M>) => T | PromiseLike<T>,
  ): Promise<T>;
  withLock<T, M extends LockMode>(
    keys: LockKey | readonly LockKey[] | Body<M, T | PromiseLike<T>>,
    optionsOrFn?: AsyncAcquireOptions<M> | Body<M, T | PromiseLike<T>>,
    maybeFn?: Body<M, T | PromiseLike<T>>,
  ): Promise<T> {
    try {
      if (typeof keys === 'function') return runHeld(this.acquire<M>(), keys);
      const [options, fn] = callArguments<AsyncAcquireOptions<M>, Body<M, T | PromiseLike<T>>>(
        optionsOrFn!,
        maybeFn,
      );
      return runHeld(this.acquire<M>(keys, options), fn);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Blocks this thread until it holds the keys. Throws a TypeError, after releasing, if fn returns a promise: use withLock.
   */
  withLockSync<T>(fn: (guard: ProcessGuard<'exclusive'>) => SyncResult<T>): T;
  withLockSync<T>(
    keys: LockKey | readonly LockKey[],
    fn: (guard: ProcessGuard<'exclusive'>) => SyncResult<T>,
  ): T;
  withLockSync<T, M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[],
    options: AcquireOptions<M>,
    fn: (guard: ProcessGuard<M>) => SyncResult<T>,
  ): T;
  withLockSync<T, M extends LockMode>(
    keys: LockKey | readonly LockKey[] | Body<M, T>,
    optionsOrFn?: AcquireOptions<M> | Body<M, T>,
    maybeFn?: Body<M, T>,
  ): T {
    const withoutKey = typeof keys === 'function';
    const [options, fn] = withoutKey
      ? [undefined, keys]
      : callArguments<AcquireOptions<M>, Body<M, T>>(optionsOrFn!, maybeFn);
    const guard = this.acquireSync<M>(withoutKey ? NO_KEY : keys, options);
    let result: T;
    let thenable: boolean;
    try {
      result = fn(guard);
      thenable = isThenable(result);
    } finally {
      guard.release();
    }
    if (thenable) throw releasedTooEarly();
    return result;
  }

  /**
   * Who holds and who waits, in all processes that have the file open. A snapshot, as others continue meanwhile. It reads what
   * processes say of themselves, which decides nothing.
   */
  inspect(): ProcessKeyState[] {
    const uses = this.#uses();
    const title = ownTitle();
    const states = new Map<string, ProcessKeyState>();
    for (const use of uses) {
      let state = states.get(use.place);
      if (state === undefined) {
        state = { key: use.key, mode: use.shared ? 'shared' : 'exclusive', holders: [], waiters: [] };
        states.set(use.place, state);
      }
      state.key ??= use.key;
      if (!use.waits) state.mode = use.shared ? 'shared' : 'exclusive';
      const { pid, threadId: thread, since } = use;
      (use.waits ? state.waiters : state.holders).push({
        pid,
        threadId: thread,
        title: use.title ?? title,
        since,
      });
    }
    for (const { waiters } of states.values()) waiters.sort((a, b) => a.since - b.since);
    return [...states.values()];
  }

  /**
   * Rejects what is pending, and refuses later acquisitions, with a LockError (ERR_LOCK_CLOSED). Guards stay held until they
   * are released; the file is closed after the last one. Idempotent.
   */
  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      for (const pending of [...this.#pending]) pending.abort(closedError(this));
      collected.unregister(this);
      this.#engine.close(this.#file);
    }
    return Promise.resolve();
  }

  /** {@link close}, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * What `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { threadBound: _, ...shown } = this;
    const { size: pending } = this.#pending;
    return `${this.constructor.name} ${inspect({ ...shown, closed: this.#closed, pending }, options)}`;
  }

  /** Checks the names of the options and the keys, and copies what could change later. May run the program's code. */
  #prepare(
    keys: LockKey | readonly LockKey[],
    options: AcquireOptions | undefined,
    names: Names<Record<string, unknown>>,
  ): Wanted {
    if (options !== undefined) checkNames(options, names);
    if (!isList(keys)) {
      checkKey(keys, 'key');
      const key = copyOf(keys);
      return { asked: key, shown: [key] };
    }
    const copies: LockKey[] = [];
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!;
      checkKey(key, `keys[${i}]`);
      copies.push(copyOf(key));
    }
    return { asked: copies, shown: copies };
  }

  /** Right before the engine uses the number of the file: once that is closed, it is given to another one. */
  #refuseIfClosed(): void {
    if (this.#closed) throw closedError(this);
  }

  #errorOf(outcome: ProcessOutcome, { shown }: Wanted, timeout: number): LockError {
    switch (outcome.status) {
      case 'failed':
        return fileError(this.path, outcome);
      case 'deadlock':
        return deadlockError(this, shown, outcome);
      case 'interrupted':
        return interruptedError(this);
      default:
        return timeoutError(this, shown, timeout, this.#holdersOf(shown));
    }
  }

  /** For a message: nothing of it must fail. */
  #holdersOf(keys: readonly LockKey[]): ProcessUse[] {
    try {
      const wanted = new Set(keys.map(keyText));
      return this.#uses().filter(({ waits, key }) => !waits && key !== undefined && wanted.has(keyText(key)));
    } catch {
      return [];
    }
  }

  #uses(): readonly ProcessUse[] {
    this.#refuseIfClosed();
    const uses = this.#engine.inspect(this.#file);
    if ('fault' in uses) throw fileError(this.path, uses);
    return uses;
  }
}

type Body<M extends LockMode, R> = (guard: ProcessGuard<M>) => R;

/** The keys of an acquisition: as the engine gets them, and as errors and guards show them. */
interface Wanted {
  readonly asked: LockKey | readonly LockKey[];
  readonly shown: readonly LockKey[];
}

/** Closes the files of locks that the program has forgotten. */
const collected = new HostFinalizationRegistry((close: () => void) => {
  close();
});

function newHold(): ProcessHold {
  return { id: -1, token: 0n, abandoned: false };
}

function isList(keys: LockKey | readonly LockKey[]): keys is readonly LockKey[] {
  return Array.isArray(keys);
}

function copyOf(key: LockKey): LockKey {
  return isBytes(key) ? copyOfBytes(key) : key;
}

/** Equal for equal keys only. */
function keyText(key: LockKey): string {
  return `${typeof key} ${isBytes(key) ? Buffer.from(key).toString('latin1') : key}`;
}

/** What other processes show of this one. */
function ownTitle(): string {
  const { title, argv, execPath, argv0 } = process;
  const set = title !== '' && title !== argv0 && title !== execPath && title !== path.basename(execPath);
  return set ? title : [path.basename(argv0), ...argv.slice(1)].join(' ');
}

/** The deadlines of this thread's pending acquisitions, which keep the event loop alive themselves. */
const deadlines: DeadlineTimer<Pending> = new DeadlineTimer<Pending>(performance.now, expire, false);

function expire(): void {
  const time = performance.now();
  for (let due = deadlines.first; due !== undefined && due.deadline <= time; due = deadlines.first) {
    deadlines.remove(due);
    due.expire();
  }
  deadlines.rearm();
}

/** An acquisition that waits on the event loop. */
class Pending implements ProcessWaiter, Abortable, Timed {
  readonly hold: ProcessHold;
  deadline = Infinity;
  place = -1;
  /** Settled with the guard. Undefined until it has begun. */
  promise: Promise<ProcessGuard> | undefined;
  readonly #engine: ProcessLockEngine;
  readonly #all: Set<Pending>;
  readonly #guard: ProcessGuard;
  readonly #signal: AbortSignal | undefined;
  readonly #errorOf: (outcome: ProcessOutcome) => LockError;
  readonly #timeout: number;
  #resolve: (guard: ProcessGuard) => void = () => undefined;
  #reject: (reason: unknown) => void = () => undefined;
  #begun = false;

  constructor(
    engine: ProcessLockEngine,
    all: Set<Pending>,
    guard: ProcessGuard,
    hold: ProcessHold,
    signal: AbortSignal | undefined,
    timeout: number,
    errorOf: (outcome: ProcessOutcome) => LockError,
  ) {
    this.#engine = engine;
    this.#all = all;
    this.#guard = guard;
    this.hold = hold;
    this.#signal = signal;
    this.#timeout = timeout;
    this.#errorOf = errorOf;
  }

  begin(): void {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    try {
      this.#all.add(this);
      if (this.#signal !== undefined) awaitAbort(this.#signal, this);
      this.deadline = performance.now() + this.#timeout;
      deadlines.add(this);
    } catch (error) {
      // The stack overflowed, or the signal or the timers are the program's own.
      this.#forget();
      throw error;
    }
    this.#begun = true;
  }

  settle(outcome: ProcessOutcome): void {
    this.#forget();
    if (outcome.status !== 'granted') this.#reject(this.#errorOf(outcome));
    else if (this.#begun) this.#resolve(this.#guard);
    // The script was ended before it had the promise.
    else this.#engine.release(this.hold);
  }

  abort(reason: unknown): void {
    if (!this.#engine.cancel(this)) return;
    this.#forget();
    this.#reject(reason);
  }

  /** A grant in time counts, however late this thread learns of it. */
  expire(): void {
    this.#engine.deliver();
    if (!this.#engine.cancel(this, true)) return;
    this.#forget();
    this.#reject(this.#errorOf({ status: 'timeout' }));
  }

  #forget(): void {
    this.#all.delete(this);
    deadlines.remove(this);
    try {
      if (this.#signal !== undefined) forgetAbort(this.#signal, this);
    } catch {
      // A leftover listener changes nothing.
    }
  }
}
