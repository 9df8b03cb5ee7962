import { threadId } from 'node:worker_threads';
import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { channels, type LockMessage } from '../common/diagnostics.js';
import { lockDeadlock, LockError, lockTimeout } from '../common/errors.js';
import { defer, performance } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import type { AsyncWaiter, Failure, LockTable, Outcome } from '../engine/contract/engine.js';
import { METRIC_CELLS } from '../engine/contract/layout.js';
import type { Mode } from '../engine/contract/mode.js';
import { grant, markTraced, modeOf, stripeOf, stripesOf, takenBy, type Guard } from './guard.js';
import { termsOf, type LockContext, type Terms } from './terms.js';
import { traceHeld } from './trace.js';

/** Of the promise that is being made. */
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

  private constructor(guard: G, terms: Terms) {
    this.guard = guard;
    this.ticket = -1;
    this.queue = undefined;
    this.previous = undefined;
    this.next = undefined;
    this.since = 0;
    this.#terms = terms;
  }

  static of<G extends Guard>(
    this: void,
    lock: LockContext,
    guard: G,
    timeout: number,
    signal: AbortSignal | undefined,
  ): Acquisition<G> {
    return new Acquisition(guard, termsOf(lock, guard, timeout, signal));
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

  get abortable(): boolean {
    return this.#terms.details?.signal !== undefined;
  }

  private get kind(): 'sync' | 'async' {
    return this.#resolve === undefined ? 'sync' : 'async';
  }

  /**
   * Records and publishes that the guard holds its stripes now. It holds them even if this fails: the caller catches
   * the error and calls this again from the microtask queue (keeps T1).
   */
  tellGranted(waited: boolean): void {
    const { guard } = this;
    if (this.note !== undefined) recordHeld(this.#terms.lock, guard);
    if (waited) this.publishWait('granted');
    if (guard.abandoned && channels.abandoned.hasSubscribers) {
      channels.abandoned.publish({ ...this.message(), stripes: guard.stripes });
    }
  }

  /** The error for an outcome. */
  failure(outcome: Failure): LockError {
    const { table, name } = this.#terms.lock;
    const lock = { name, exact: table.names !== undefined };
    const details = (stripe: number): string | undefined =>
      this.note === undefined ? undefined : tracedHolders(table, stripe);
    switch (outcome.status) {
      case 'timeout': {
        const { timeout } = this;
        const { stripe, holders } = outcome;
        Atomics.add(table.cells, METRIC_CELLS.timeouts, 1n);
        this.publishWait('timeout');
        if (channels.timeout.hasSubscribers) {
          channels.timeout.publish({ ...this.message(), timeout, stripe, holders });
        }
        return lockTimeout(lock, this.shownKeys(), timeout, stripe, holders, threadId, details(stripe));
      }
      case 'deadlock': {
        const { threads, stripes, waited } = outcome;
        Atomics.add(table.cells, METRIC_CELLS.deadlocks, 1n);
        if (waited) this.publishWait('deadlock');
        if (channels.deadlock.hasSubscribers) {
          channels.deadlock.publish({ ...this.message(), threads, stripes });
        }
        return lockDeadlock(lock, this.shownKeys(), threads, stripes, details(stripes[0]!));
      }
      case 'interrupted':
        return new LockError('ERR_LOCK_INTERRUPTED', 'this thread is being ended');
    }
  }

  private tellAborted(): void {
    this.publishWait('aborted');
  }

  /** Of an acquisition that counts as `contended`. */
  private publishWait(outcome: string): void {
    // A single attempt is not a wait.
    if (this.timeout === 0 || !channels.wait.hasSubscribers) return;
    const begun = this.#terms.details?.begun;
    const waited = begun === undefined ? 0 : performance.now() - begun.since;
    channels.wait.publish({ ...this.message(), key: begun?.key, waited, outcome });
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

  /**
   * Settles the promise before it does anything else that could fail. If this is called again after a stack overflow,
   * it continues from there: the guard may have been released since.
   */
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

  /** Removes the listener from the signal. Never throws: a leftover listener is better than a lost stripe. */
  forgetSignal(): void {
    const signal = this.#terms.details?.signal;
    if (signal === undefined) return;
    try {
      forgetAbort(signal, this);
    } catch {
      // The listener stays, but can no longer change anything here.
    }
  }

  abort(reason: unknown): void {
    if (!this.table.cancel(this)) return;
    // From here on this is not called again.
    this.#terms.details!.reject!(reason);
    this.#resolve = null;
    Atomics.add(this.table.cells, METRIC_CELLS.aborts, 1n);
    try {
      this.tellAborted();
    } catch {
      defer(() => this.tellAborted(), undefined);
    }
  }
}

/** `Promise.reject`, which no program replaces. */
const rejected: (reason: unknown) => Promise<never> = Promise.reject.bind(Promise);

/**
 * From now on `inspect()` shows what a traced guard holds. This is the last step of an acquisition, and is done later if it
 * fails. The note was made before the first stripe was taken.
 */
export function recordHeld({ name, table }: LockContext, guard: Guard): void {
  if (!guard.held) return;
  markTraced(guard);
  traceHeld(name, table, guard, stripesOf(guard), modeOf(guard));
}

/** For an error's message: the traced holders of a stripe, since when they hold it, and where they acquired it. */
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
