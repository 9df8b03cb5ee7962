import path from 'node:path';
import { inspect, type InspectOptions } from 'node:util';
import type { Abortable } from '../common/abort.js';
import { copyOfBytes, isBytes } from '../common/bytes.js';
import { callArguments, checkNames, type Names } from '../common/checks.js';
import { HostFinalizationRegistry } from '../common/host.js';
import { isThenable, releasedTooEarly, runHeld } from '../common/run-held.js';
import { threadBound } from '../common/thread-bound.js';
import type {
  AcquireOptions,
  AsyncAcquireOptions,
  DrainedOptions,
  LockKey,
  LockMode,
  OneKeyState,
  StripedLockStats,
  SyncResult,
} from '../common/types.js';
import type { ProcessFile, ProcessUse } from '../engine/contract/process-locks.js';
import { processLockEngine } from '../engine/select.js';
import type { FileTerms } from '../lock/acquisition.js';
import type { Guard } from '../lock/guard.js';
import { ACQUISITION, ATTEMPT, SYNC_ACQUISITION } from '../lock/options.js';
import { checkKey, isList, ONLY_KEY } from '../lock/stripe-index.js';
import { methodsOf } from '../lock/trace.js';
import { closedError, failureOf, fileError, openError } from './errors.js';
import { FileKeys } from './file-keys.js';
import { createProcessGuard, type ProcessGuard, type ProcessHold } from './guard.js';
import {
  checkAccess,
  resolveProcessLockOptions,
  type FileAccess,
  type ProcessLockOptions,
} from './options.js';

/** A thread that holds a key or waits for it. */
export interface ProcessHolder {
  /** The id of the process. */
  pid: number;
  /**
   * The thread's id in that process: `threadId` of `node:worker_threads`. If several threads of the process
   * share the key, the id of the first one.
   */
  threadId: number;
  /**
   * The title of the process: `process.title` if the program has set it, otherwise the
   * command line. Cut to about 120 bytes.
   */
  title: string;
  /**
   * The time at which the thread acquired the key or began to wait, in milliseconds since 1970. If several
   * threads of the process share the key, the time at which the first one acquired it.
   */
  since: number;
  /**
   * The source line that acquired the key. Only for threads of this process
   * whose lock has the option `trace`.
   */
  acquiredAt?: string;
}

/** A key that is held or waited for. */
export interface ProcessKeyState {
  /**
   * The key. Undefined if no process publishes it: a process publishes only the keys that it holds,
   * and only keys of up to 70 bytes.
   */
  key: LockKey | undefined;
  /** The mode in which the key is held. If the key is not held, the mode of a waiter. */
  mode: LockMode;
  /** The threads that hold the key. */
  holders: ProcessHolder[];
  /** All waiting threads of this process, and one waiting thread of each other process. */
  waiters: ProcessHolder[];
}

/** The key of an acquisition without a key, for programs that need only one lock in the file. */
const NO_KEY = '';

const THREAD_BOUND = threadBound(
  'ProcessLock',
  'pass lock.path instead, and create a ProcessLock of it there',
);

/** For elections only. Throws if the lock was closed. */
export let refuseClosedLock: (lock: ProcessLock) => void;

/**
 * Locks on keys for the processes of one machine, and for their threads. The kernel keeps the locks, as locks
 * on bytes of one file. When a process ends for any reason, the kernel frees the locks of that process.
 *
 * In all processes that have the file open, equal keys are the same lock, and unequal keys are separate
 * locks. The keys `1` and `'1'` are unequal. Each process and each thread creates its own `ProcessLock` with
 * the same path. A child process inherits no locks.
 *
 * The lock is not reentrant. It does not support files on another machine: use a lease
 * instead. It needs the native addon.
 */
export class ProcessLock implements AsyncDisposable {
  /** The file, as an absolute path. */
  readonly path: string;
  /** The name that errors show. */
  readonly name: string;
  /** The default timeout of an acquisition, for all of its keys together, in milliseconds. */
  readonly timeout: number;
  /** The number of acquisitions that may hold a key at once; 1 for an exclusive lock. */
  readonly limit: number;
  /**
   * Makes structured clone refuse the lock: see {@link threadBound}.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  readonly #file: ProcessFile;
  readonly #keys: FileKeys;
  readonly #terms: FileTerms;
  readonly #pending = new Set<Abortable>();
  #closed = false;

  /**
   * Opens or creates the file, without waiting for holders of keys. Throws a TypeError or RangeError for bad
   * options. Throws a LockError (`ERR_LOCK_FILE_…`) if the file cannot be used, or a LockError
   * (ERR_LOCK_ENGINE) without the addon.
   */
  constructor(options: ProcessLockOptions) {
    const { path: file, name, timeout, files, limit, access, trace } = resolveProcessLockOptions(options);
    this.path = file;
    this.name = name;
    this.timeout = timeout;
    this.limit = limit;
    const shown = name === '' ? file : name;
    const opened = openFile(file, shown, files, limit, access);
    this.#file = opened;
    // A pending acquisition refers to these terms, and through them to the lock. So the file stays open for
    // the acquisition, even if the program drops the lock.
    this.#terms = {
      pending: this.#pending,
      guardOf: (guard) => createProcessGuard(opened, { guard }),
      // A subscriber of a channel may have closed the lock during the acquisition.
      holdersElsewhere: (key) => (this.#closed ? [] : opened.holdersElsewhere(key)),
      failure: (outcome, keys, limit) =>
        failureOf(this, outcome, keys, limit, (some) => holdersOf(opened, some)),
      methods: METHODS,
    };
    this.#keys = new FileKeys(opened.table, { name: shown, timeout, trace }, this.#terms);
    collected.register(this, () => opened.close(), this);
  }

  /**
   * Acquires all of the keys or none of them, under one deadline, without blocking this thread. A pending
   * acquisition keeps the event loop alive. Rejects with a LockTimeoutError at the timeout, with
   * signal.reason after an abort, or with a LockError if the file can no longer be used.
   */
  acquire<M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[] = NO_KEY,
    options?: AsyncAcquireOptions<M>,
  ): Promise<ProcessGuard<M>> {
    try {
      const wanted = this.#prepare(keys, options, ACQUISITION);
      const acquired: Promise<unknown> = this.#keys.acquire(wanted, options);
      // An acquisition of no keys never reaches the engine, so
      // `FileTerms.guardOf` has not been called for it.
      if (isList(wanted) && wanted.length === 0)
        return acquired.then((guard) => this.#terms.guardOf(guard as Guard) as ProcessGuard<M>);
      return acquired as Promise<ProcessGuard<M>>;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Like {@link acquire}, but blocks this thread. Throws a LockTimeoutError at the timeout. Throws a
   * DeadlockError if the wait could never end, because this thread itself holds a key, or because
   * threads of this process wait for each other in a cycle. A cycle through other processes is not
   * detected, and ends at the timeout.
   */
  acquireSync<M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[] = NO_KEY,
    options?: AcquireOptions<M>,
  ): ProcessGuard<M> {
    const wanted = this.#prepare(keys, options, SYNC_ACQUISITION);
    const hold: ProcessHold = { guard: undefined };
    const guard = createProcessGuard<M>(this.#file, hold);
    hold.guard = this.#keys.acquireSync(wanted, options);
    return guard;
  }

  /**
   * Makes one attempt and never waits, so `mode` is its only option. Returns undefined if a key is held, or
   * reserved for a process that has waited for it. Throws a LockError if the file can no longer be used.
   */
  tryAcquire<M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[] = NO_KEY,
    options?: { mode?: M },
  ): ProcessGuard<M> | undefined {
    const wanted = this.#prepare(keys, options, ATTEMPT);
    const hold: ProcessHold = { guard: undefined };
    const guard = createProcessGuard<M>(this.#file, hold);
    hold.guard = this.#keys.tryAcquire(wanted, options);
    return hold.guard === undefined ? undefined : guard;
  }

  /**
   * Acquires the keys, runs fn, and releases the keys when fn ends, even with an error. Without keys, it
   * acquires the empty key, which excludes no other key.
   */
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
   * Like {@link withLock}, but blocks this thread until it holds the keys. If fn returns a promise, this
   * throws a TypeError after the release: use withLock instead.
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
   * Reports whether a key is free, and how many acquisitions in all processes hold it or wait for it. For
   * each other process, at most one waiter counts, and at most one of the holders that share the key. The
   * result is a snapshot that may be outdated at once; to act on a free key, use {@link tryAcquire}. Throws a
   * TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for a value that is not a key.
   */
  stateOf(key: LockKey = NO_KEY): OneKeyState {
    checkKey(key, ONLY_KEY);
    const uses = usesOf(this.#file, this.#uses(), [key]);
    // The counts of this process. A granted acquisition counts as a waiter until its
    // thread has locked a byte of the key.
    const { holders: granted, waiters: queued } = this.#keys.stateOf(key);
    const holding = uses.filter(({ waits }) => !waits);
    const others = uses.filter(({ title }) => title !== undefined);
    const theirs = others.filter(({ waits }) => !waits).length;
    const shown = holding.length - theirs;
    // A thread that shares a key is shown only once, even if it has several holds.
    const ours = shown === 0 || this.limit > 1 ? Math.min(shown, granted) : granted;
    const holders = ours + theirs;
    const waiters = queued + (granted - ours) + (others.length - theirs);
    const mode = holders === 0 ? undefined : holding[0]!.shared ? 'shared' : 'exclusive';
    const permitsLeft = this.limit > 1 ? Math.max(0, this.limit - holders) : holders === 0 ? 1 : 0;
    return { free: permitsLeft > 0, mode, holders, waiters, permitsLeft };
  }

  /**
   * Whether an exclusive acquisition of the key would wait for a holder: the opposite of `stateOf(key).free`.
   */
  isLocked(key: LockKey = NO_KEY): boolean {
    return !this.stateOf(key).free;
  }

  /**
   * Counters of this process, summed over all of its threads that use the file. They are a snapshot:
   * other threads keep changing them.
   */
  stats(): StripedLockStats {
    return this.#keys.stats();
  }

  /**
   * Resolves when no thread of this process holds a key or waits for one. It works
   * like `drained` of the other locks.
   */
  drained(options?: DrainedOptions): Promise<void> {
    return this.#keys.drained(options);
  }

  /**
   * A snapshot of the holders and waiters in all processes that have the file open. The snapshot comes from
   * records that processes keep only for this purpose. These records never decide which process holds a key.
   */
  inspect(): ProcessKeyState[] {
    return statesOf(this.#uses());
  }

  /**
   * Rejects pending and later acquisitions with a LockError (ERR_LOCK_CLOSED). Guards stay held until they
   * are released. The file is closed after the last guard is released. Idempotent.
   */
  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      for (const pending of [...this.#pending]) pending.abort(closedError(this));
      collected.unregister(this);
      this.#file.close();
    }
    return Promise.resolve();
  }

  /** Calls {@link close} at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { threadBound: _, ...shown } = this;
    const { size: pending } = this.#pending;
    return `${this.constructor.name} ${inspect({ ...shown, closed: this.#closed, pending }, options)}`;
  }

  /**
   * Checks the keys and the names of the options, and copies keys that could change later. May run user code,
   * which may close the lock. So this method checks last whether the lock was closed.
   */
  #prepare(
    keys: LockKey | readonly LockKey[],
    options: AcquireOptions | undefined,
    names: Names<Record<string, unknown>>,
  ): LockKey | readonly LockKey[] {
    if (options !== undefined) checkNames(options, names);
    let copies: LockKey | LockKey[];
    if (isList(keys)) {
      copies = [];
      for (let i = 0; i < keys.length; i++) copies.push(checkedCopyOf(keys[i]!, i));
    } else {
      copies = checkedCopyOf(keys, ONLY_KEY);
    }
    this.#refuseIfClosed();
    return copies;
  }

  /**
   * Throws if the lock was closed. Call this after the last user code has run, because the engine may give
   * the number of a closed file to another file.
   */
  #refuseIfClosed(): void {
    if (this.#closed) throw closedError(this);
  }

  static {
    refuseClosedLock = (lock) => lock.#refuseIfClosed();
  }

  #uses(): readonly ProcessUse[] {
    this.#refuseIfClosed();
    return usesIn(this.#file, this.path);
  }
}

type Body<M extends LockMode, R> = (guard: ProcessGuard<M>) => R;

const METHODS = methodsOf(ProcessLock.prototype);

/** Closes the files of locks that were garbage-collected without being closed. */
const collected = new HostFinalizationRegistry((close: () => void) => {
  close();
});

/**
 * The holders and waiters of a lock file, with any `files` and any `limit`. Throws the same errors as the
 * constructor of {@link ProcessLock}.
 */
export function inspectFile(file: string, access: FileAccess): ProcessKeyState[] {
  const opened = openFile(file, file, 0, 0, checkAccess(access, 'access'));
  try {
    return statesOf(usesIn(opened, file));
  } finally {
    opened.close();
  }
}

function openFile(file: string, name: string, files: number, limit: number, access: number): ProcessFile {
  const opened = processLockEngine().open(file, name, ownTitle(), files, limit, access);
  if ('fault' in opened) throw openError(file, opened);
  return opened;
}

function usesIn(opened: ProcessFile, file: string): readonly ProcessUse[] {
  const uses = opened.inspect();
  if ('fault' in uses) throw fileError(file, uses);
  return uses;
}

function statesOf(uses: readonly ProcessUse[]): ProcessKeyState[] {
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
    const { pid, threadId, since, acquiredAt } = use;
    const shown: ProcessHolder = { pid, threadId, title: use.title ?? title, since };
    if (acquiredAt !== undefined) shown.acquiredAt = acquiredAt;
    (use.waits ? state.waiters : state.holders).push(shown);
  }
  for (const { waiters } of states.values()) waiters.sort((a, b) => a.since - b.since);
  return [...states.values()];
}

/** The holders of keys for an error message. Returns an empty list if the holders cannot be read. */
function holdersOf(file: ProcessFile, keys: readonly LockKey[]): readonly ProcessUse[] {
  try {
    const uses = file.inspect();
    return 'fault' in uses ? [] : usesOf(file, uses, keys).filter(({ waits }) => !waits);
  } catch {
    return [];
  }
}

function usesOf(file: ProcessFile, uses: readonly ProcessUse[], keys: readonly LockKey[]): ProcessUse[] {
  const places = new Set(keys.map((key) => file.placeOf(key)));
  return uses.filter(({ place }) => places.has(place));
}

/** Checks the key. Copies bytes, which could change later. `place`: its index in a list, or ONLY_KEY. */
function checkedCopyOf(key: LockKey, place: number): LockKey {
  checkKey(key, place);
  return isBytes(key) ? copyOfBytes(key) : key;
}

/** The title of this process, which other processes show. */
function ownTitle(): string {
  const { title, argv, execPath, argv0 } = process;
  const set = title !== '' && title !== argv0 && title !== execPath && title !== path.basename(execPath);
  return set ? title : [path.basename(argv0), ...argv.slice(1)].join(' ');
}
