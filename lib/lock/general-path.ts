import { defer, resolved } from '../common/host.js';
import type { AcquireOptions, AsyncAcquireOptions, LockKey, LockMode } from '../common/types.js';
import { hasPermits, type Mode } from '../engine/contract/mode.js';
import type { FastPath } from '../engine/fast-path.js';
import { isList } from './arguments.js';
import { BaseLock } from './base-lock.js';
import { createGuard, createGuardOfSet, tryTake, type Guard } from './guard.js';
import type { KeyIndex } from './key-index.js';
import type { KeySets } from './key-set.js';
import { checkAcquisitionNames, modeIn, permitModeIn, signalIn, timeoutIn } from './options.js';
import { attempt, block, showHeld, wait, type GoOn } from './slow-path.js';
import type { LockContext } from './terms.js';
import { traceCall, type EntryPoints } from './trace.js';

type How = 'sync' | 'try' | 'async';

/** A class of locks as it was at import: a program may replace its methods by functions that call these. */
export type EntryMethods = Readonly<Record<'acquire' | 'acquireSync' | 'tryAcquire', EntryPoints['inner']>>;

const { withLock, withLockSync } = BaseLock.prototype as unknown as Record<
  'withLock' | 'withLockSync',
  EntryPoints['inner']
>;

/**
 * Acquisitions that are more than one exclusive key without options: of several keys, with options, traced. The classes
 * of locks have the rest in methods of their own, so that V8 can inline it.
 */
export class GeneralPath {
  readonly #context: LockContext;
  readonly #path: FastPath;
  readonly #timeout: number;
  readonly #index: KeyIndex;
  readonly #sets: KeySets;
  readonly #methods: EntryMethods;
  /** Whether the lock has permits. */
  readonly #permits: boolean;

  constructor(
    context: LockContext,
    path: FastPath,
    timeout: number,
    index: KeyIndex,
    sets: KeySets,
    methods: EntryMethods,
  ) {
    this.#context = context;
    this.#path = path;
    this.#timeout = timeout;
    this.#index = index;
    this.#sets = sets;
    this.#methods = methods;
    this.#permits = hasPermits(context.table.limit);
  }

  /** The mode that an acquisition asks for. */
  modeIn(options: AcquireOptions | undefined): Mode {
    return this.#permits ? permitModeIn(options) : modeIn(options);
  }

  takeSync<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AcquireOptions<M> | undefined,
  ): Guard<K, M> {
    const mode = this.modeIn(options);
    const timeout = timeoutIn(options, this.#timeout);
    if (this.#context.trace || isList(keys)) {
      return this.#take(this.#prepare<K, M>('sync', keys, mode), options, timeout, undefined, block);
    }
    const guard = createGuard<K, M>(this.#path, keys, this.#index.stripeOf(keys, 'key'), mode);
    if (tryTake(guard)) return guard;
    checkAcquisitionNames(options);
    return block(this.#context, guard, timeout);
  }

  take<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    options: AsyncAcquireOptions<M> | undefined,
  ): Promise<Guard<K, M>> {
    const mode = this.modeIn(options);
    const timeout = timeoutIn(options, this.#timeout);
    const signal = signalIn(options);
    const guard = this.#prepare<K, M>('async', keys, mode);
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    this.#context.table.acquiringAsync();
    const taken = this.#take(guard, options, timeout, signal, wait);
    return taken === guard ? resolved(guard) : (taken as Promise<Guard<K, M>>);
  }

  tryTake<K extends LockKey, M extends LockMode>(
    keys: K | readonly K[],
    mode: Mode,
  ): Guard<K, M> | undefined {
    return this.#take(this.#prepare<K, M>('try', keys, mode), undefined, 0, undefined, attempt);
  }

  /** Checks the keys and finds their stripes; takes nothing. */
  #prepare<K extends LockKey, M extends LockMode>(how: How, keys: K | readonly K[], mode: Mode): Guard<K, M> {
    const path = this.#path;
    const guard = isList(keys)
      ? createGuardOfSet<K, M>(path, this.#sets.setOf(keys), mode)
      : createGuard<K, M>(path, keys, this.#index.stripeOf(keys, 'key'), mode);
    if (this.#context.trace) traceCall(guard, guard.keys, this.#entryPoints(how));
    return guard;
  }

  #entryPoints(how: How): EntryPoints {
    const { acquire, acquireSync, tryAcquire } = this.#methods;
    if (how === 'sync') return { inner: inner.takeSync, method: acquireSync, outer: withLockSync };
    if (how === 'async') return { inner: inner.take, method: acquire, outer: withLock };
    return { inner: inner.tryTake, method: tryAcquire, outer: undefined };
  }

  /**
   * Takes the stripes of a guard: by the fast path or, if that does not get all, by `goOn`. If this throws, it gives back
   * what was taken: now or, after a stack overflow, from the microtask queue. (That code is in place: calling a function for
   * it may overflow, too, as V8 may have to compile it first. Keeps T1.) A guard of one stripe that is not traced does
   * without: it has nothing until the last step.
   */
  #take<G extends Guard, R>(
    guard: G,
    options: AcquireOptions | undefined,
    timeout: number,
    signal: AbortSignal | undefined,
    goOn: GoOn<G, R>,
  ): G | R {
    const context = this.#context;
    // If this throws, the guard has nothing yet. No function is called between this and the try block.
    const all = tryTake(guard);
    if (all && !context.trace) return guard;
    try {
      if (!all) {
        checkAcquisitionNames(options);
        return goOn(context, guard, timeout, signal);
      }
      showHeld(context, guard);
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

/**
 * As above: the functions that call {@link traceCall}'s caller. They have names of their own: Bun looks for a function in a
 * stack by its name.
 */
const inner = GeneralPath.prototype as unknown as Readonly<
  Record<'take' | 'takeSync' | 'tryTake', EntryPoints['inner']>
>;

/**
 * Whether such an acquisition is under way in this thread, of any lock: whether it is on the stack. True where that cannot be
 * told: where the program formats stacks itself, and may leave frames out, or on another host than Node.
 */
export function isUnderWay(): boolean {
  const format = Reflect.get(Error, 'prepareStackTrace') as { readonly name: string } | undefined;
  if (format?.name !== 'ErrorPrepareStackTrace' || !(Error.stackTraceLimit > 0)) return true;
  return [inner.take, inner.takeSync, inner.tryTake].some((entry) => {
    // Has the frames above the function's, and none if it is not on the stack.
    const target: { stack?: string } = {};
    Error.captureStackTrace(target, entry);
    return target.stack?.includes('\n') !== false;
  });
}
