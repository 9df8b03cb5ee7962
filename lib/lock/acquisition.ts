import { threadId } from 'node:worker_threads';
import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { channels, type LockMessage } from '../common/diagnostics.js';
import { keyName, lockDeadlock, LockError, lockTimeout } from '../common/errors.js';
import { defer, performance } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import { DRAW_NONE, type BegunWait, type EndedWait } from '../engine/contract/contention.js';
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
  type Guard,
} from './guard.js';
import type { KeyIndex } from './stripe-index.js';
import { noteOf, traceHeld } from './trace.js';

/** What an acquisition needs to know of its lock. */
export class LockContext {
  readonly name: string;
  readonly table: LockTable;
  /** Whether guards have notes; see `trace.ts`. */
  readonly trace: boolean;
  readonly index: KeyIndex;
  /** The terms of acquisitions with the lock's own timeout and nothing that few have. Most waiters refer to these. */
  readonly plain: Terms;

  constructor(name: string, table: LockTable, trace: boolean, timeout: number, index: KeyIndex) {
    this.name = name;
    this.table = table;
    this.trace = trace;
    this.index = index;
    this.plain = { lock: this, timeout, details: undefined };
  }
}

/** All of an acquisition but its guard and its outcome. */
interface Terms {
  readonly lock: LockContext;
  readonly timeout: number;
  readonly details: Details | undefined;
}

/** What few acquisitions have. */
interface Details {
  /** What errors and messages show, if the guard's own keys can change while this waits. */
  readonly keys: readonly LockKey[] | undefined;
  readonly note: string | undefined;
  /** For {@link channels}.wait; undefined if nobody listens. */
  readonly begun: Begun | undefined;
  readonly signal: AbortSignal | undefined;
  /** Rejects a promise that the signal may end. */
  reject: ((reason: unknown) => void) | undefined;
}

/** How a wait began. */
interface Begun extends BegunWait {
  /** The first of the keys that was not free. */
  readonly key: LockKey;
  readonly stripe: number;
  /** Whether a profile of contention is taken. */
  readonly isProfiled: boolean;
}

/** Nothing was unpinned since the keys were looked up (keeps N4 of `pinned-keys.ts`), so each still has its stripe. */
function begunOf(
  { index, table }: LockContext,
  guard: Guard,
  keys: readonly LockKey[],
  isAsync: boolean,
): Begun {
  const stripe = stripesOf(guard)[takenBy(guard)]!;
  const key = keys.length === 1 ? keys[0]! : keys.find((each) => index.stripeOf(each, 'keys[]') === stripe)!;
  const { contention } = table;
  const isProfiled = contention?.isOn === true;
  const since = performance.now();
  const place = isProfiled && isAsync ? contention.capture(since) : undefined;
  return { since, key, stripe, isProfiled, kind: isAsync ? 'async' : 'sync', place, draw: DRAW_NONE };
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
  if (keys === undefined && !trace && !listens && signal === undefined) {
    return timeout === plain.timeout ? plain : { lock, timeout, details: undefined };
  }
  const note = trace ? noteOf(guard) : undefined;
  const begun = listens ? begunOf(lock, guard, keys ?? guard.keys, isAsync) : undefined;
  return { lock, timeout, details: { keys, note, begun, signal, reject: undefined } };
}

/** Those of the promise that is being made. */
const functions: {
  resolve: ((value: unknown) => void) | undefined;
  reject: ((reason: unknown) => void) | undefined;
} = { resolve: undefined, reject: undefined };
const takeFunctions = (resolve: (value: unknown) => void, reject: (reason: unknown) => void): void => {
  functions.resolve = resolve;
  functions.reject = reject;
};

/** A promise's function; null once it is settled, undefined if there is none. */
type Resolve<G> = ((outcome: G | Promise<never>) => void) | null | undefined;

/**
 * An acquisition that the fast path could not finish. It is also the engine's request. It counts its outcome, publishes
 * it to `node:diagnostics_channel`, and turns it into a guard or an error.
 *
 * If it waits on the event loop ({@link promise}), it settles its promise exactly once, by grant, failure or abort. Of the
 * promise's functions it keeps only the one that resolves, unless there is a signal. The other one would take as much memory
 * as these fields; a promise that is resolved with a rejected one is rejected, too.
 *
 * Thousands may wait in one thread, so it has few fields, and no private methods, which would cost each one more. Sync waits
 * have no class of their own: V8 does not inline the constructor of a class that extends another.
 */
export class Acquisition<G extends Guard> implements AsyncWaiter, Abortable {
  // Declared, so that the constructor alone assigns them: see `docs/performance.md`.
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

  /** Records and publishes that the guard holds its stripes now. It holds them even if this fails, on a stack overflow. */
  tellGranted(waited: boolean): void {
    const { guard } = this;
    try {
      if (this.note !== undefined) recordHeld(this.#terms.lock, guard);
      if (waited) this.publishWait('granted');
      if (guard.abandoned && channels.abandoned.hasSubscribers) {
        channels.abandoned.publish({ ...this.message(), stripes: guard.stripes });
      }
    } catch {
      // The holder counts, and what is told of it does not.
    }
  }

  /** The error for an outcome. */
  failure(outcome: Failure): LockError {
    const { table, name } = this.#terms.lock;
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
        return lockTimeout(lock, this.shownKeys(), timeout, stripe, holders, threadId, details(stripe));
      }
      case 'deadlock': {
        const { threads, stripes, waited } = outcome;
        Atomics.add(table.cells, METRIC_CELLS.deadlocks, 1n);
        if (waited) this.publishWait('deadlock', threads.slice(1));
        if (channels.deadlock.hasSubscribers) {
          channels.deadlock.publish({ ...this.message(), threads, stripes });
        }
        return lockDeadlock(lock, this.shownKeys(), threads, stripes, details(stripes[0]!));
      }
      case 'interrupted':
        return new LockError('ERR_LOCK_INTERRUPTED', 'this thread is being ended');
    }
  }

  /** The acquisition counts as `contended`. */
  private publishWait(outcome: EndedWait['outcome'], holders: readonly number[] = []): void {
    // A single attempt is not a wait.
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
      const { stripe } = begun;
      const { mode } = this.guard;
      return { lock, key: keyName(begun.key), stripe, mode, outcome, holders };
    });
  }

  private message(): LockMessage {
    const { mode } = this.guard;
    return { lock: this.#terms.lock.name, keys: this.shownKeys(), mode, kind: this.kind, threadId };
  }

  private shownKeys(): readonly LockKey[] {
    return this.#terms.details?.keys?.slice() ?? this.guard.keys;
  }

  /** Call this once, before the acquisition is passed to the engine. */
  promise(): Promise<G> {
    // A function of its own for each promise would cost as much as the promise.
    const last = functions;
    const promise = new Promise(takeFunctions);
    const { resolve, reject } = last;
    // They would keep the promise alive, and with it the guard and the lock.
    last.resolve = last.reject = undefined;
    if (resolve === undefined) {
      // The stack overflowed in that function, which has rejected the promise.
      defer(() => void promise.catch(() => undefined), undefined);
      throw new RangeError('Maximum call stack size exceeded');
    }
    this.#resolve = resolve;
    const { details } = this.#terms;
    if (details?.signal !== undefined) {
      details.reject = reject;
      awaitAbort(details.signal, this);
    }
    return promise as Promise<G>;
  }

  /** If this is called again after a stack overflow, it continues from there: the guard may have been released since. */
  settle(outcome: Outcome): void {
    if (this.#resolve) this.settlePromise(outcome, this.#resolve);
    if (outcome.status === 'granted') this.tellGranted(outcome.waited);
    this.forgetSignal();
  }

  private settlePromise(outcome: Outcome, resolve: (outcome: G | Promise<never>) => void): void {
    if (outcome.status === 'granted') {
      grant(this.guard, outcome.abandoned);
      resolve(this.guard);
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

  /** Removes the listener from the signal. Never throws: a leftover listener changes nothing. */
  private forgetSignal(): void {
    const signal = this.#terms.details?.signal;
    if (signal === undefined) return;
    try {
      forgetAbort(signal, this);
    } catch {
      // The signal may be the program's own.
    }
  }

  abort(reason: unknown): void {
    if (!this.table.cancel(this)) return;
    // From here on this is not called again.
    this.#terms.details!.reject!(reason);
    this.#resolve = null;
    Atomics.add(this.table.cells, METRIC_CELLS.aborts, 1n);
    this.publishWait('aborted');
  }
}

/** `Promise.reject`, which no program replaces. */
const rejected: (reason: unknown) => Promise<never> = Promise.reject.bind(Promise);

/** From now on `inspect()` shows what a traced guard holds. The note was made before the first stripe was taken. */
export function recordHeld({ name, table }: LockContext, guard: Guard): void {
  // Settled again after a stack overflow, it may have been released since.
  if (!guard.held) return;
  markTraced(guard);
  traceHeld(name, table, guard, stripesOf(guard), modeOf(guard));
}

/** A part of an error's message: the traced holders of a stripe, since when they hold it, and where they acquired it. */
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
 * If the fast path did not take all stripes of a guard, the engine continues in one of the functions below. If one of them
 * throws, the engine holds nothing for the guard, and the guard has what it had, or nothing (keeps T1).
 */

/** One of {@link block}, {@link wait} and {@link attempt}. */
export type Continue<G extends Guard, R> = (
  lock: LockContext,
  guard: G,
  timeout: number,
  signal: AbortSignal | undefined,
) => R;

/** Blocks this thread until the guard holds its stripes. */
export function block<G extends Guard>(lock: LockContext, guard: G, timeout: number): G {
  const acquisition = new Acquisition(lock, guard, timeout, undefined, false);
  const outcome = continueTaking(guard, acquisition);
  if (outcome.status !== 'granted') throw acquisition.failure(outcome);
  acquisition.tellGranted(outcome.waited);
  return guard;
}

/** Waits on the event loop. */
export function wait<G extends Guard>(
  lock: LockContext,
  guard: G,
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<G> {
  const pending = new Acquisition(lock, guard, timeout, signal, true);
  const promise = pending.promise();
  const outcome = continueTaking(guard, pending, pending);
  if (outcome === undefined) return promise;
  // At once: its thread holds the stripes now, and would wait for itself if it blocked before the promise is resolved.
  try {
    pending.settle(outcome);
  } catch {
    // A stack overflow. Nobody else has the guard.
    defer(() => pending.settle(outcome), undefined);
  }
  return promise;
}

/** One attempt of the engine. Undefined: the guard has nothing. */
export function attempt<G extends Guard>(lock: LockContext, guard: G): G | undefined {
  const stripes = stripesOf(guard);
  const request = { stripes, taken: takenBy(guard), mode: modeOf(guard), timeout: 0, note: undefined };
  if (continueTaking(guard, request).status !== 'granted') return undefined;
  if (lock.trace) recordHeld(lock, guard);
  return guard;
}
