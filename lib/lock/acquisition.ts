import { threadId } from 'node:worker_threads';
import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { channels, type LockMessage } from '../common/diagnostics.js';
import { keyName, lockDeadlock, LockError, lockTimeout } from '../common/errors.js';
import { defer, performance, resolved } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import {
  DRAW_NONE,
  type BegunWait,
  type EndedWait,
  type HoldingProcess,
} from '../engine/contract/contention.js';
import type { AsyncWaiter, Failure, LockTable, Outcome } from '../engine/contract/engine.js';
import { METRIC_CELLS, OBSERVE_METRICS, OBSERVED_INT } from '../engine/contract/layout.js';
import type { Mode } from '../engine/contract/mode.js';
import { countWait } from '../engine/contract/wait-times.js';
import {
  continueTaking,
  copyOfKeys,
  grant,
  markTraced,
  modeOf,
  stripeOf,
  stripesOf,
  takenBy,
  tryEnter,
  type Guard,
} from './guard.js';
import type { KeyIndex } from './stripe-index.js';
import { noteOf, traceHeld, type PublicMethods } from './trace.js';

/** The parts of an acquisition that differ for a `ProcessLock`, which locks its keys in a file. */
export interface FileTerms {
  /**
   * Creates the guard that the promise resolves with. Between a grant and the call of this method, no other
   * code of this thread may run. Such code could wait for the granted keys and block this thread, and then no
   * code could release these keys.
   */
  guardOf(guard: Guard): object;
  /** The other processes that hold the key. Empty if the file cannot be used. */
  holdersElsewhere(key: LockKey): readonly HoldingProcess[];
  /** Creates the error for a failed acquisition. */
  failure(outcome: Failure, keys: readonly LockKey[], timeout: number): LockError;
  /** The pending acquisitions of the `ProcessLock`. `ProcessLock.close()` rejects them. */
  readonly pending: Set<Abortable>;
  /**
   * The public methods of `ProcessLock`. A trace searches the stack for the caller of one of these methods.
   */
  readonly methods: PublicMethods;
}

/** The parts of a lock that its acquisitions use. */
export class LockContext {
  readonly name: string;
  readonly table: LockTable;
  /** Whether acquisitions are traced: see `trace.ts`. */
  readonly trace: boolean;
  readonly index: KeyIndex;
  /**
   * The terms of an acquisition that has the lock's default timeout and no details.
   * Most waiters share this object.
   */
  readonly plain: Terms;
  readonly file: FileTerms | undefined;

  constructor(
    name: string,
    table: LockTable,
    trace: boolean,
    timeout: number,
    index: KeyIndex,
    file?: FileTerms,
  ) {
    this.file = file;
    this.name = name;
    this.table = table;
    this.trace = trace;
    this.index = index;
    this.plain = { lock: this, timeout, details: undefined };
  }
}

/** The fields of an {@link Acquisition} that several acquisitions can share. */
interface Terms {
  readonly lock: LockContext;
  readonly timeout: number;
  readonly details: Details | undefined;
}

/** Rarely used fields, in a separate object to keep {@link Acquisition} small. */
interface Details {
  /** A copy of the keys for errors and messages, if the keys can change during the wait: see `copyOfKeys`. */
  readonly keys: readonly LockKey[] | undefined;
  readonly note: string | undefined;
  /** Whether waits are observed by subscribers, metrics or a profile. */
  readonly listens: boolean;
  /** The start of the wait. Undefined unless waits are observed. */
  begun: Begun | undefined;
  readonly signal: AbortSignal | undefined;
  /** The promise's reject function. It is called if the signal is aborted or the `ProcessLock` is closed. */
  reject: ((reason: unknown) => void) | undefined;
}

/** The start of a wait, and the stripe that was not free. */
interface Begun extends BegunWait {
  /** The key of the stripe that was not free. */
  readonly key: LockKey;
  readonly stripe: number;
  /** Whether a profile of contention was running when the wait started. */
  readonly isProfiled: boolean;
  /** See {@link EndedWait.processes}. */
  readonly processes: readonly HoldingProcess[] | undefined;
}

/**
 * Records the start of a wait for `stripe`, which was not free. The keys are looked up again to find the key of
 * the stripe. Each key still has the same stripe, because the key has been pinned since its first look-up
 * (preserves N4, see `pinned-keys.ts`).
 */
function begunOf(
  { index, table, file }: LockContext,
  stripe: number,
  keys: readonly LockKey[],
  isAsync: boolean,
): Begun {
  const key = keys.length === 1 ? keys[0]! : keys.find((each) => index.stripeOf(each, 0) === stripe)!;
  const { contention } = table;
  const isProfiled = contention?.isOn === true;
  const since = performance.now();
  const place = isProfiled && isAsync ? contention.capture(since) : undefined;
  // Reading the holders takes system calls, so it has the same limit as capturing stacks. A blocking call needs
  // no limit, because it blocks for longer than that.
  const isAsked = isProfiled && (!isAsync || place !== undefined);
  const processes = isAsked ? file?.holdersElsewhere(key) : undefined;
  const kind = isAsync ? 'async' : 'sync';
  return { since, key, stripe, isProfiled, processes, kind, place, draw: DRAW_NONE };
}

function termsOf(
  lock: LockContext,
  guard: Guard,
  timeout: number,
  signal: AbortSignal | undefined,
  isAsync: boolean,
): Terms {
  const keys = copyOfKeys(guard);
  const { plain, trace } = lock;
  const listens = channels.wait.hasSubscribers || lock.table.words[OBSERVED_INT] !== 0;
  // `ProcessLock.close()` ends pending acquisitions, like an aborted signal.
  const endable = signal !== undefined || (isAsync && lock.file !== undefined);
  if (keys === undefined && !trace && !listens && !endable) {
    return timeout === plain.timeout ? plain : { lock, timeout, details: undefined };
  }
  const note = trace ? noteOf(guard) : undefined;
  // For the keys of a file, `takeOrBegin` records the start.
  const begun =
    listens && lock.file === undefined
      ? begunOf(lock, stripesOf(guard)[takenBy(guard)]!, keys ?? guard.keys, isAsync)
      : undefined;
  return { lock, timeout, details: { keys, note, listens, begun, signal, reject: undefined } };
}

/**
 * The resolve and reject functions of the promise that is being created.
 * {@link takeFunctions} stores them here.
 */
const functions: {
  resolve: ((value: unknown) => void) | undefined;
  reject: ((reason: unknown) => void) | undefined;
} = { resolve: undefined, reject: undefined };
const takeFunctions = (resolve: (value: unknown) => void, reject: (reason: unknown) => void): void => {
  functions.resolve = resolve;
  functions.reject = reject;
};

/**
 * The resolve function of an acquisition's promise. Null once the promise is settled;
 * undefined for a sync acquisition.
 */
type Resolve<G> = ((outcome: G | Promise<never>) => void) | null | undefined;

/**
 * An acquisition that the fast path could not finish. This object is the request that is passed to the
 * engine. When the outcome is known, this object counts the outcome, publishes it on
 * `node:diagnostics_channel`, and creates the error if the acquisition failed.
 *
 * An async acquisition settles its promise exactly once: by a grant, a failure or an abort. The object
 * usually stores only the promise's resolve function, and rejects the promise by resolving it with a rejected
 * promise. Storing the reject function would take as much memory as all fields of the acquisition.
 *
 * Thousands of acquisitions can wait in one thread, so the class has few fields. For the same reason, the
 * class has no `#private` methods, which would add a field. Sync waits use the same class, because V8 does
 * not inline the constructor of a derived class.
 */
export class Acquisition<G extends Guard> implements AsyncWaiter, Abortable {
  // Without `declare`, each field would first be initialized to undefined. The
  // constructor assigns each field once.
  declare readonly guard: G;
  declare ticket: number;
  declare queue: object | undefined;
  declare previous: AsyncWaiter | undefined;
  declare next: AsyncWaiter | undefined;
  declare since: number;
  readonly #terms: Terms;
  #resolve: Resolve<G> = undefined;

  constructor(
    lock: LockContext,
    guard: G,
    timeout: number,
    signal: AbortSignal | undefined,
    isAsync: boolean,
  ) {
    this.guard = guard;
    this.ticket = -1;
    this.queue = undefined;
    this.previous = undefined;
    this.next = undefined;
    this.since = 0;
    this.#terms = termsOf(lock, guard, timeout, signal, isAsync);
  }

  get timeout(): number {
    return this.#terms.timeout;
  }

  get table(): LockTable {
    return this.#terms.lock.table;
  }

  get only(): number {
    return stripeOf(this.guard);
  }

  get stripes(): readonly number[] {
    return stripesOf(this.guard);
  }

  get taken(): number {
    return takenBy(this.guard);
  }

  get mode(): Mode {
    return modeOf(this.guard);
  }

  get note(): string | undefined {
    return this.#terms.details?.note;
  }

  get begun(): BegunWait | undefined {
    return this.#terms.details?.begun;
  }

  get abortable(): boolean {
    return this.#terms.details?.signal !== undefined;
  }

  private get kind(): 'sync' | 'async' {
    return this.#resolve === undefined ? 'sync' : 'async';
  }

  /**
   * Makes one attempt to take keys of a file, if waits are observed. The fast path does not show which stripe of
   * a file is not free. If the attempt fails because a stripe is not free, records the start of the wait for
   * this stripe, and returns undefined. Otherwise returns the outcome of the attempt. Preserves T1 of
   * `LockTable`, as {@link continueTaking} does.
   */
  takeOrBegin(isAsync: boolean): Outcome | undefined {
    const { lock, timeout, details } = this.#terms;
    // An acquisition with a timeout of 0 does not wait.
    if (lock.file === undefined || details?.listens !== true || timeout === 0) return undefined;
    const outcome = tryOnce(lock, this.guard);
    if (outcome.status !== 'timeout') return outcome;
    try {
      details.begun = begunOf(lock, outcome.stripe, details.keys ?? this.guard.keys, isAsync);
    } catch {
      // For example, the stack has overflowed. The acquisition is unaffected. Only the record is lost.
    }
    return undefined;
  }

  /**
   * Records the grant for the trace, and publishes the grant. Errors are ignored, because the guard holds its
   * stripes in any case.
   */
  reportGranted(waited: boolean): void {
    const { guard } = this;
    try {
      if (this.note !== undefined) recordHeld(this.#terms.lock, guard);
      if (waited) this.publishWait('granted');
      if (guard.abandoned && channels.abandoned.hasSubscribers) {
        channels.abandoned.publish({ ...this.message(), stripes: guard.stripes });
      }
    } catch {
      // The grant is valid without the report.
    }
  }

  /** Counts and publishes a failure, and returns the error for it. */
  failure(outcome: Failure): LockError {
    const { table, name, file } = this.#terms.lock;
    const lock = { name, exact: table.keys !== undefined };
    const details = (stripe: number): string | undefined =>
      this.note === undefined ? undefined : tracedHolders(table, stripe);
    switch (outcome.status) {
      case 'timeout': {
        const { timeout } = this;
        const { stripe, holders } = outcome;
        Atomics.add(table.cells, METRIC_CELLS.timeouts, 1n);
        this.publishWait('timeout', holders);
        if (channels.timeout.hasSubscribers) {
          channels.timeout.publish({ ...this.message(), timeout, stripe, holders });
        }
        if (file !== undefined) break;
        return lockTimeout(lock, this.shownKeys(), timeout, stripe, holders, threadId, details(stripe));
      }
      case 'deadlock': {
        const { threads, stripes, waited } = outcome;
        Atomics.add(table.cells, METRIC_CELLS.deadlocks, 1n);
        if (waited) this.publishWait('deadlock', threads.slice(1));
        if (channels.deadlock.hasSubscribers) {
          channels.deadlock.publish({ ...this.message(), threads, stripes });
        }
        if (file !== undefined) break;
        return lockDeadlock(lock, this.shownKeys(), threads, stripes, details(stripes[0]!));
      }
      case 'interrupted':
        if (file !== undefined) break;
        return new LockError('ERR_LOCK_INTERRUPTED', 'this thread is being ended');
      case 'failed':
        if (outcome.waited) this.publishWait('failed');
        break;
    }
    return file!.failure(outcome, this.shownKeys(), this.timeout);
  }

  /**
   * Reports the end of a wait to metrics, the profile and subscribers. Call this only for a wait that
   * `stats()` counts as `contended`.
   */
  private publishWait(outcome: EndedWait['outcome'], holders: readonly number[] = []): void {
    // An acquisition with a timeout of 0 makes one attempt and does not wait.
    if (this.timeout === 0) return;
    const begun = this.#terms.details?.begun;
    const { words, cells } = this.#terms.lock.table;
    const waited = begun === undefined ? 0 : performance.now() - begun.since;
    if (begun !== undefined && (words[OBSERVED_INT]! & OBSERVE_METRICS) !== 0) countWait(cells, waited);
    if (begun?.isProfiled === true) this.recordWait(begun, outcome, holders);
    if (!channels.wait.hasSubscribers) return;
    channels.wait.publish({ ...this.message(), key: begun?.key, waited, outcome });
  }

  private recordWait(begun: Begun, outcome: EndedWait['outcome'], holders: readonly number[]): void {
    const { name: lock, table } = this.#terms.lock;
    table.contention!.ended(begun, () => {
      const { stripe, processes } = begun;
      const { mode } = this.guard;
      return { lock, key: keyName(begun.key), stripe, mode, outcome, holders, processes };
    });
  }

  private message(): LockMessage {
    const { mode } = this.guard;
    return { lock: this.#terms.lock.name, keys: this.shownKeys(), mode, kind: this.kind, threadId };
  }

  private shownKeys(): readonly LockKey[] {
    return this.#terms.details?.keys?.slice() ?? this.guard.keys;
  }

  /** Creates the promise. Call this once, before the acquisition is passed to the engine. */
  promise(): Promise<G> {
    // All promises share one executor, because a separate closure for each promise would cost as much as the
    // promise itself.
    const last = functions;
    const promise = new Promise(takeFunctions);
    const { resolve, reject } = last;
    // A leftover reference would keep the promise alive, and the promise would keep the guard and the lock
    // alive.
    last.resolve = last.reject = undefined;
    if (resolve === undefined) {
      // The executor overflowed the stack, so the promise is already rejected. A microtask handles the
      // rejection, and this method throws a RangeError instead.
      defer(() => void promise.catch(() => undefined), undefined);
      throw new RangeError('Maximum call stack size exceeded');
    }
    this.#resolve = resolve;
    const { details, lock } = this.#terms;
    if (details !== undefined) details.reject = reject;
    // First, because the signal's method may be user code that a `vm` timeout ends.
    if (details?.signal !== undefined) awaitAbort(details.signal, this);
    if (lock.file !== undefined) lock.file.pending.add(this);
    return promise as Promise<G>;
  }

  /**
   * Settles the promise and reports the outcome. If `settle` throws, call it again: the second call resumes
   * at the step that failed. Between the two calls, the program may release the guard.
   */
  settle(outcome: Outcome): void {
    if (this.#resolve) this.settlePromise(outcome, this.#resolve);
    // Most grants need no report. In a thread that was idle, the calls below take 2 µs longer than this check.
    const { details, lock } = this.#terms;
    const isPlain = details === undefined && lock.file === undefined && !channels.wait.hasSubscribers;
    if (isPlain && outcome.status === 'granted' && !outcome.abandoned) return;
    if (outcome.status === 'granted') this.reportGranted(outcome.waited);
    this.forgetSignal();
  }

  private settlePromise(outcome: Outcome, resolve: (outcome: G | Promise<never>) => void): void {
    if (outcome.status === 'granted') {
      grant(this.guard, outcome.abandoned);
      const { file } = this.#terms.lock;
      resolve(file === undefined ? this.guard : (file.guardOf(this.guard) as G));
    } else {
      let reason: unknown;
      try {
        reason = this.failure(outcome);
      } catch (error) {
        reason = error;
      }
      resolve(rejected(reason));
    }
    this.#resolve = null;
  }

  /**
   * Removes the listeners for an abort and for `close()`. Ignores errors, because a
   * leftover listener does no harm.
   */
  forgetSignal(): void {
    const { lock, details } = this.#terms;
    const signal = details?.signal;
    if (signal === undefined && lock.file === undefined) return;
    try {
      lock.file?.pending.delete(this);
      if (signal === undefined) return;
      forgetAbort(signal, this);
    } catch {
      // The program may have replaced a method of the signal by a function that throws.
    }
  }

  abort(reason: unknown): void {
    if (!this.table.cancel(this)) return;
    this.#terms.lock.file?.pending.delete(this);
    // The engine does not settle a cancelled acquisition.
    this.#terms.details!.reject!(reason);
    this.#resolve = null;
    Atomics.add(this.table.cells, METRIC_CELLS.aborts, 1n);
    this.publishWait('aborted');
  }
}

/** `Promise.reject`, captured at import, because the program may replace it later. */
const rejected: (reason: unknown) => Promise<never> = Promise.reject.bind(Promise);

/**
 * Makes the lock's `inspect()` show the stripes of a traced guard, and the note with the call site. The note
 * was created before the guard took its first stripe.
 */
export function recordHeld({ name, table }: LockContext, guard: Guard): void {
  // If `settle` is called a second time, the program may already have released the guard.
  if (!guard.held) return;
  markTraced(guard);
  traceHeld(name, table, guard, stripesOf(guard), modeOf(guard));
}

/**
 * Describes the traced holders of a stripe for an error message: how long each holder has held the stripe,
 * and where it acquired the stripe.
 */
function tracedHolders(table: LockTable, stripe: number): string | undefined {
  const state = table.inspect().find((candidate) => candidate.stripe === stripe);
  const traced = state?.holders.filter(({ acquiredAt }) => acquiredAt !== undefined) ?? [];
  if (traced.length === 0) return undefined;
  return traced
    .map(({ threadId: holder, heldFor, acquiredAt }) => {
      return `thread ${holder} for ${(heldFor ?? 0).toFixed(1)} ms, acquired ${acquiredAt}`;
    })
    .join('; ');
}

/*
 * After the fast path has failed to take all stripes of a guard, one of the next three functions passes the
 * guard to the engine. If that function throws, the engine holds nothing for the guard. The guard itself
 * holds either the stripes that the fast path took, or none (preserves T1 of `LockTable`).
 */

/** The type of {@link block}, {@link wait} and {@link attempt}. */
export type Continue<G extends Guard, R> = (
  lock: LockContext,
  guard: G,
  timeout: number,
  signal: AbortSignal | undefined,
) => R;

/** Blocks this thread until the guard holds all its stripes. Throws if the acquisition fails. */
export function block<G extends Guard>(lock: LockContext, guard: G, timeout: number): G {
  if (!lock.trace && tryEnter(guard, lock.table)) return guard;
  const acquisition = new Acquisition(lock, guard, timeout, undefined, false);
  const outcome = acquisition.takeOrBegin(false) ?? continueTaking(guard, lock.table, acquisition);
  if (outcome.status !== 'granted') throw acquisition.failure(outcome);
  acquisition.reportGranted(outcome.waited);
  return guard;
}

/** Resolves once the guard holds all its stripes. Until then, the acquisition waits on the event loop. */
export function wait<G extends Guard>(
  lock: LockContext,
  guard: G,
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<G> {
  if (lock.file !== undefined && !lock.trace) {
    // The value is created before the attempt, because creating it can throw (preserves T1 of `LockTable`).
    const value = lock.file.guardOf(guard);
    if (tryEnter(guard, lock.table)) return resolved(value) as unknown as Promise<G>;
  }
  const pending = new Acquisition(lock, guard, timeout, signal, true);
  let promise: Promise<G>;
  let outcome: Outcome | undefined;
  try {
    promise = pending.promise();
    outcome = pending.takeOrBegin(true) ?? continueTaking(guard, lock.table, pending, pending);
  } catch (error) {
    // In a microtask, where the stack is empty.
    defer(() => pending.forgetSignal(), undefined);
    throw error;
  }
  if (outcome === undefined) return promise;
  // After a grant, the promise must be resolved before this thread runs other code. Such code could wait for
  // stripes that this thread already holds, and so block the thread.
  try {
    pending.settle(outcome);
  } catch {
    // A microtask calls `settle` again. Until then, no other code has a reference to the guard.
    defer(() => pending.settle(outcome), undefined);
  }
  return promise;
}

/** Makes one attempt through the engine, without waiting. */
function tryOnce(lock: LockContext, guard: Guard): Outcome {
  const stripes = stripesOf(guard);
  const request = { stripes, taken: takenBy(guard), mode: modeOf(guard), timeout: 0, note: undefined };
  return continueTaking(guard, lock.table, request);
}

/**
 * Makes one attempt through the engine. If a stripe is not free, returns
 * undefined, and the guard holds nothing.
 */
export function attempt<G extends Guard>(lock: LockContext, guard: G): G | undefined {
  if (!lock.trace && tryEnter(guard, lock.table)) return guard;
  const outcome = tryOnce(lock, guard);
  if (outcome.status === 'failed') throw lock.file!.failure(outcome, guard.keys, 0);
  if (outcome.status !== 'granted') return undefined;
  if (lock.trace) recordHeld(lock, guard);
  return guard;
}
