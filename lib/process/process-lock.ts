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
  /** The process. */
  pid: number;
  /** `threadId` of `node:worker_threads` in that process. If several of its threads share the key, the id of the first. */
  threadId: number;
  /** `process.title` if the program has set it, otherwise its command line; cut to about 120 bytes. */
  title: string;
  /**
   * When the thread acquired the key, or began to wait, in milliseconds since 1970. If several threads of its process share the
   * key, when the first of them acquired it.
   */
  since: number;
  /** The source line that acquired the key, for threads of this process that use a lock with `trace`. */
  acquiredAt?: string;
}

/** A key that is held or waited for. */
export interface ProcessKeyState {
  /** Undefined if no process shows it: a process shows the keys that it holds, up to 70 bytes each. */
  key: LockKey | undefined;
  /** The mode in which it is held. If it is not held, the mode of its waiters. */
  mode: LockMode;
  /** The threads that hold it. */
  holders: ProcessHolder[];
  /** The threads of this process that wait for it, and one thread of each other process. */
  waiters: ProcessHolder[];
}

/** The key if none is passed, for programs that need only one lock in the file. */
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
  /** How many may hold a key at once; 1 for an exclusive lock. */
  readonly limit: number;
  /**
   * See {@link threadBound}.
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
   * Opens the file, or creates it, without waiting for holders of keys. Throws a TypeError or RangeError for bad options, and a
   * LockError (`ERR_LOCK_FILE_…`) if the file cannot be used, or (ERR_LOCK_ENGINE) without the addon.
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
    // A pending acquisition refers to these, and so to the lock: its file stays open, even if the program forgets the lock.
    this.#terms = {
      pending: this.#pending,
      guardOf: (guard) => createProcessGuard(opened, { guard }),
      failure: (outcome, keys, limit) =>
        failureOf(this, outcome, keys, limit, (some) => holdersOf(opened, some)),
      methods: METHODS,
    };
    this.#keys = new FileKeys(opened.table, { name: shown, timeout, trace }, this.#terms);
    collected.register(this, () => opened.close(), this);
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
      const wanted = this.#prepare(keys, options, ACQUISITION);
      this.#refuseIfClosed();
      const acquired: Promise<unknown> = this.#keys.acquire(wanted, options);
      // A guard of no keys does not come from the engine, which makes the others (FileTerms).
      if (isList(wanted) && wanted.length === 0)
        return acquired.then((guard) => this.#terms.guardOf(guard as Guard) as ProcessGuard<M>);
      return acquired as Promise<ProcessGuard<M>>;
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
    const wanted = this.#prepare(keys, options, SYNC_ACQUISITION);
    const hold: ProcessHold = { guard: undefined };
    const guard = createProcessGuard<M>(this.#file, hold);
    this.#refuseIfClosed();
    hold.guard = this.#keys.acquireSync(wanted, options);
    return guard;
  }

  /**
   * Makes one attempt and never waits, so `mode` is its only option. Undefined if a key is held, or reserved for a process that
   * has waited. Throws a LockError if the file can no longer be used.
   */
  tryAcquire<M extends LockMode = 'exclusive'>(
    keys: LockKey | readonly LockKey[] = NO_KEY,
    options?: { mode?: M },
  ): ProcessGuard<M> | undefined {
    const wanted = this.#prepare(keys, options, ATTEMPT);
    const hold: ProcessHold = { guard: undefined };
    const guard = createProcessGuard<M>(this.#file, hold);
    this.#refuseIfClosed();
    hold.guard = this.#keys.tryAcquire(wanted, options);
    return hold.guard === undefined ? undefined : guard;
  }

  /**
   * Runs fn while holding the keys; releases them however fn ends. Without keys it takes the empty key, which excludes no
   * other.
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
   * Whether a key is free, and how many acquisitions hold it and wait for it, in all processes: of each other process one waiter,
   * and one of those that share the key. A snapshot, as others continue: to act on it, use {@link tryAcquire}. Throws a TypeError
   * (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for a bad key.
   */
  stateOf(key: LockKey = NO_KEY): OneKeyState {
    checkKey(key, ONLY_KEY);
    const uses = usesOf(this.#file, this.#uses(), [key]);
    // Of this process. A granted acquisition counts as a waiter until its thread has locked a byte of the key.
    const { holders: granted, waiters: queued } = this.#keys.stateOf(key);
    const holding = uses.filter(({ waits }) => !waits);
    const others = uses.filter(({ title }) => title !== undefined);
    const theirs = others.filter(({ waits }) => !waits).length;
    const shown = holding.length - theirs;
    // Threads that share a key are each shown once, however many holds they have.
    const ours = shown === 0 || this.limit > 1 ? Math.min(shown, granted) : granted;
    const holders = ours + theirs;
    const waiters = queued + (granted - ours) + (others.length - theirs);
    const mode = holders === 0 ? undefined : holding[0]!.shared ? 'shared' : 'exclusive';
    const permitsLeft = this.limit > 1 ? Math.max(0, this.limit - holders) : holders === 0 ? 1 : 0;
    return { free: permitsLeft > 0, mode, holders, waiters, permitsLeft };
  }

  /** Whether an exclusive acquisition of a key would wait for holders: the opposite of `stateOf(key).free`. */
  isLocked(key: LockKey = NO_KEY): boolean {
    return !this.stateOf(key).free;
  }

  /** Counters of all threads of this process that use the file. A snapshot, as other threads continue meanwhile. */
  stats(): StripedLockStats {
    return this.#keys.stats();
  }

  /** Resolves when no thread of this process holds a key or waits for one. See `drained` of the other locks. */
  drained(options?: DrainedOptions): Promise<void> {
    return this.#keys.drained(options);
  }

  /**
   * The holders and waiters in all processes that have the file open. A snapshot, as others continue meanwhile. It reads records
   * that processes keep for this purpose, and that never decide who holds a key.
   */
  inspect(): ProcessKeyState[] {
    return statesOf(this.#uses());
  }

  /**
   * Rejects pending and later acquisitions with a LockError (ERR_LOCK_CLOSED). Guards stay held until they are released; the file
   * is closed after the last one. Idempotent.
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
  ): LockKey | readonly LockKey[] {
    if (options !== undefined) checkNames(options, names);
    if (!isList(keys)) {
      if (typeof keys === 'object') checkKey(keys, ONLY_KEY);
      return copyOf(keys);
    }
    const copies: LockKey[] = [];
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!;
      checkKey(key, i);
      copies.push(copyOf(key));
    }
    return copies;
  }

  /** After the program's code has run: once the file is closed, its number is given to another one. */
  #refuseIfClosed(): void {
    if (this.#closed) throw closedError(this);
  }

  #uses(): readonly ProcessUse[] {
    this.#refuseIfClosed();
    return usesIn(this.#file, this.path);
  }
}

type Body<M extends LockMode, R> = (guard: ProcessGuard<M>) => R;

const METHODS = methodsOf(ProcessLock.prototype);

/** Closes the files of locks that the program has forgotten. */
const collected = new HostFinalizationRegistry((close: () => void) => {
  close();
});

/** The holders and waiters of a file, whatever its limit is. Throws what the constructor throws. */
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

/** For a message, which must not fail. */
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

function copyOf(key: LockKey): LockKey {
  return isBytes(key) ? copyOfBytes(key) : key;
}

/** The title of this process that other processes show. */
function ownTitle(): string {
  const { title, argv, execPath, argv0 } = process;
  const set = title !== '' && title !== argv0 && title !== execPath && title !== path.basename(execPath);
  return set ? title : [path.basename(argv0), ...argv.slice(1)].join(' ');
}
