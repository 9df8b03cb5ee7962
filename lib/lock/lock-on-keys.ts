import { threadId } from 'node:worker_threads';
import { acquireStart, acquireTracing, type AcquireMessage } from '../common/diagnostics.js';
import { defer, resolved } from '../common/host.js';
import type { AcquireOptions, AsyncAcquireOptions, LockKey, LockMode, OneKeyState } from '../common/types.js';
import type { LockTable, StripeCounts } from '../engine/contract/engine.js';
import { HOLDER_MASK } from '../engine/contract/lock-word.js';
import { EXCLUSIVE_MODE, hasPermits, modeOfWord, type Mode } from '../engine/contract/mode.js';
import { FastPath } from '../engine/fast-path.js';
import { attempt, block, LockContext, recordHeld, wait, type Continue } from './acquisition.js';
import { BaseLock } from './base-lock.js';
import { createGuard, createGuardOfSet, stripesOf, tryTake, type Guard } from './guard.js';
import type { OpenedLock } from './handle.js';
import type { KeySets } from './key-set.js';
import {
  checkAsyncOptions,
  checkAttemptNames,
  checkNamesOfWait,
  checkSyncOptions,
  modeIn,
  permitModeIn,
  signalIn,
  timeoutIn,
} from './options.js';
import { ONLY_KEY, type KeyIndex } from './stripe-index.js';
import { traceCall, type EntryPoints } from './trace.js';

/**
 * How keys are acquired. The three public methods are the whole way of one key, exclusively and without options, where the
 * key is free; V8 inlines what they call. No code of the program runs there between the look-up of a key and the moment when
 * its stripe is taken or waited for (keeps N4, see `pinned-keys.ts`). The other methods do the rest.
 */
export abstract class LockOnKeys<A extends LockMode = LockMode> extends BaseLock<A> {
  readonly #table: LockTable;
  readonly #path: FastPath;
  readonly #index: KeyIndex;
  readonly #sets: KeySets;
  readonly #context: LockContext;
  readonly #permits: boolean;
  /** No acquisition goes the short way: each is traced, or takes a permit. */
  readonly #special: boolean;

  /** @internal */
  protected constructor({ table, name, timeout, trace }: OpenedLock, index: KeyIndex, sets: KeySets) {
    super(name, timeout, table.engine);
    this.#table = table;
    this.#path = new FastPath(table);
    this.#index = index;
    this.#sets = sets;
    this.#context = new LockContext(name, table, trace, timeout, index);
    this.#permits = hasPermits(table.limit);
    this.#special = trace || this.#permits;
  }

  override acquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AsyncAcquireOptions<M> & { mode?: A },
  ): Promise<Guard<K, M>> {
    try {
      if (options !== undefined || this.#special || typeof keys === 'object' || acquireStart.hasSubscribers) {
        return this.#acquireSlow(keys, options);
      }
      const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), EXCLUSIVE_MODE);
      this.#table.acquiringAsync();
      return tryTake(guard) ? resolved(guard) : wait(this.#context, guard, this.timeout, undefined);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  override acquireSync<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: AcquireOptions<M> & { mode?: A },
  ): Guard<K, M> {
    if (options !== undefined || this.#special || typeof keys === 'object' || acquireStart.hasSubscribers) {
      return this.#acquireSyncSlow(keys, options);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), EXCLUSIVE_MODE);
    return tryTake(guard) ? guard : block(this.#context, guard, this.timeout);
  }

  override tryAcquire<K extends LockKey, M extends LockMode = 'exclusive'>(
    keys: K | readonly K[],
    options?: { mode?: M & A },
  ): Guard<K, M> | undefined {
    if (options !== undefined || this.#special || typeof keys === 'object' || acquireStart.hasSubscribers) {
      return this.#tryAcquireSlow(keys, options);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), EXCLUSIVE_MODE);
    return tryTake(guard) ? guard : attempt(this.#context, guard);
  }

  override stateOf(key: LockKey): OneKeyState {
    const { word, waiting } = this.countsOf(key);
    return oneKeyState(word, waiting, this.#table.limit);
  }

  /**
   * Throws if it is not a key.
   *
   * @internal
   */
  protected abstract countsOf(key: LockKey): StripeCounts;

  #modeIn(options: AcquireOptions | undefined): Mode {
    return this.#permits ? permitModeIn(options) : modeIn(options);
  }

  #acquireSlow<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    if (!acquireStart.hasSubscribers) return this.#acquireAny(keys, options);
    return acquireTracing.tracePromise(
      () => this.#acquireAny(keys, options),
      this.#message('async', keys, options),
    );
  }

  #acquireSyncSlow<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    if (!acquireStart.hasSubscribers) return this.#acquireSyncAny(keys, options);
    return publishCall(this.#message('sync', keys, options), () => this.#acquireSyncAny(keys, options));
  }

  #tryAcquireSlow<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: { mode?: M } | undefined,
  ): Guard<K, M> | undefined {
    if (!acquireStart.hasSubscribers) return this.#tryAcquireAny(keys, options);
    return publishCall(this.#message('sync', keys, options), () => this.#tryAcquireAny(keys, options));
  }

  #message(
    kind: AcquireMessage['kind'],
    keys: LockKey | readonly LockKey[],
    options: { mode?: LockMode } | undefined,
  ): AcquireMessage {
    return { lock: this.name, keys: shownKeys(keys), mode: options?.mode ?? 'exclusive', kind, threadId };
  }

  // Any keys, with any options.

  #acquireAny<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    const mode = this.#modeIn(options);
    const timeout = timeoutIn(options, this.timeout);
    const signal = signalIn(options);
    checkAsyncOptions(options);
    this.#table.acquiringAsync();
    const free = signal === undefined ? this.#tryOne<K, M>(keys, mode) : undefined;
    if (free !== undefined) return resolved(free);
    this.#index.begin();
    try {
      const guard = this.#prepare<K, M>('async', keys, mode);
      if (signal !== undefined) {
        this.#index.keep(stripesOf(guard));
        if (signal.aborted) return Promise.reject(signal.reason as Error);
      }
      const taken = this.#take(guard, options, timeout, signal, wait);
      return taken === guard ? resolved(guard) : (taken as Promise<Guard<K, M>>);
    } finally {
      this.#index.end();
    }
  }

  #acquireSyncAny<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    const mode = this.#modeIn(options);
    const timeout = timeoutIn(options, this.timeout);
    checkSyncOptions(options);
    const free = this.#tryOne<K, M>(keys, mode);
    if (free !== undefined) return free;
    this.#index.begin();
    try {
      return this.#take(this.#prepare<K, M>('sync', keys, mode), options, timeout, undefined, block);
    } finally {
      this.#index.end();
    }
  }

  #tryAcquireAny<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: { mode?: M } | undefined,
  ): Guard<K, M> | undefined {
    const mode = this.#modeIn(options);
    checkAttemptNames(options);
    const free = this.#tryOne<K, M>(keys, mode);
    if (free !== undefined) return free;
    this.#index.begin();
    try {
      return this.#take(this.#prepare<K, M>('try', keys, mode), undefined, 0, undefined, attempt);
    } finally {
      this.#index.end();
    }
  }

  /** The short way of one key in any mode. Undefined if it is not free, or this lock has no short way. */
  #tryOne<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    mode: Mode,
  ): Guard<K, M> | undefined {
    if (this.#special || typeof keys === 'object') return undefined;
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), mode);
    return tryTake(guard) ? guard : undefined;
  }

  /** Checks the keys and finds their stripes; takes nothing. */
  #prepare<K extends LockKey, M extends LockMode>(how: How, keys: K | readonly K[], mode: Mode): Guard<K, M> {
    const { unpins } = this.#index;
    let guard = this.#lookUp<K, M>(keys, mode);
    if (this.#index.unpins !== unpins) {
      // Code of the list may have made room for others. It does not run again for the keys that were read.
      guard = this.#lookUp(isList(keys) ? guard.keys : keys, mode);
    }
    if (!this.#context.trace) return guard;
    this.#index.keep(stripesOf(guard));
    traceCall(guard, guard.keys, this.#entryPoints(how));
    return guard;
  }

  #lookUp<K extends LockKey, M extends LockMode>(keys: K | readonly K[], mode: Mode): Guard<K, M> {
    for (let attempt = 0; ; attempt++) {
      try {
        return this.#guardOf(keys, mode);
      } catch (error) {
        if (!this.#index.makeRoom(error, attempt)) throw error;
      }
    }
  }

  #guardOf<K extends LockKey, M extends LockMode>(keys: K | readonly K[], mode: Mode): Guard<K, M> {
    if (isList(keys)) return createGuardOfSet(this.#path, this.#sets.setOf(keys), mode);
    return createGuard(this.#path, keys, this.#index.stripeOf(keys, ONLY_KEY), mode);
  }

  #entryPoints(how: How): EntryPoints {
    if (how === 'sync') return { inner: this.#acquireSyncAny, method: acquireSync, outer: withLockSync };
    if (how === 'async') return { inner: this.#acquireAny, method: acquire, outer: withLock };
    return { inner: this.#tryAcquireAny, method: tryAcquire, outer: undefined };
  }

  /**
   * Takes the stripes of a guard: by the fast path or, if that does not get all, by `go`. If this throws, it gives back
   * what was taken: now or, after a stack overflow, from the microtask queue. (That code is in place: calling a function for
   * it may overflow, too, as V8 may have to compile it first. Keeps T1.)
   */
  #take<G extends Guard, R>(
    guard: G,
    options: AcquireOptions | undefined,
    timeout: number,
    signal: AbortSignal | undefined,
    go: Continue<G, R>,
  ): G | R {
    const context = this.#context;
    // If this throws, the guard has nothing yet. No function is called between this and the try block.
    const all = tryTake(guard);
    if (all && !context.trace) return guard;
    try {
      if (!all) {
        this.#index.keep(stripesOf(guard));
        checkNamesOfWait(options);
        return go(context, guard, timeout, signal);
      }
      recordHeld(context, guard);
    } catch (error) {
      try {
        guard.release();
      } catch {
        defer(() => guard.release(), undefined);
      }
      throw error;
    }
    return guard;
  }
}

/** Publishes a call. What fails afterwards, on a stack overflow, must not leave a guard that nobody has. */
function publishCall<G extends Guard | undefined>(message: AcquireMessage, call: () => G): G {
  let guard: G | undefined;
  try {
    return acquireTracing.traceSync(() => (guard = call()), message);
  } catch (error) {
    guard?.release();
    throw error;
  }
}

/** What messages show of what the caller passed, which is not checked yet. */
function shownKeys(keys: LockKey | readonly LockKey[]): readonly LockKey[] {
  try {
    return isList(keys) ? [...keys] : [keys];
  } catch {
    return [];
  }
}

/** The state of a key, by the word of its stripe, in a table with that limit. */
function oneKeyState(word: number, waiters: number, limit: number): OneKeyState {
  const mode = modeOfWord(word, limit);
  const holders = mode === undefined ? 0 : mode.counted ? word & HOLDER_MASK : 1;
  // Each shared holder keeps exclusive ones out.
  const permitsLeft = hasPermits(limit) ? limit - holders : holders === 0 ? 1 : 0;
  return { free: permitsLeft > 0, mode: mode?.name, holders, waiters, permitsLeft };
}

type How = 'sync' | 'try' | 'async';

/** The methods at import: a program may replace them by functions that call these. */
const { acquire, acquireSync, tryAcquire, withLock, withLockSync } =
  LockOnKeys.prototype as unknown as Record<
    'acquire' | 'acquireSync' | 'tryAcquire' | 'withLock' | 'withLockSync',
    EntryPoints['method']
  >;

/** `Array.isArray` for read-only lists. False for a revoked Proxy, for which that throws. */
function isList<K extends LockKey>(keys: K | readonly K[]): keys is readonly K[] {
  try {
    return Array.isArray(keys);
  } catch {
    return false;
  }
}
