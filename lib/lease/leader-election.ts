import { inspect, type InspectOptions } from 'node:util';
import { checkFunction, checkOptionsObject, type Names } from '../common/checks.js';
import { invalidArgType, LockError, outOfRange } from '../common/errors.js';
import { timerNow } from '../common/elapsed.js';
import { queueMicrotask } from '../common/host.js';
import { pause, settledWithin } from '../common/timers.js';
import { inspectBound, threadBound } from '../common/thread-bound.js';
import type { HostSignal } from '../common/types.js';
import { warn } from '../common/warnings.js';
import type { ProcessGuard } from '../process/guard.js';
import { ProcessLock } from '../process/process-lock.js';
import { messageOf } from './contract/errors.js';
import { checkKey, checkTtl } from './contract/lease-store.js';
import { heldSignal, type Lease } from './lease.js';
import { checkUnshared, LeaseManager, takesItsOwn } from './manager.js';

const THREAD_BOUND = threadBound(
  'LeaderElection',
  'create one there, over a LeaseManager or a ProcessLock of that thread',
);

/** Milliseconds. See {@link LeaderElectionOptions.ttl}. */
const DEFAULT_TTL = 10_000;
/** The milliseconds that a candidate pauses after a failure. The pause doubles with each failure until it has led for a TTL. */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

/** The place of an election: the store of a manager, or the file of a lock between the processes of a machine. */
export type ElectionGround = LeaseManager | ProcessLock;

/** A leader's hold: a lease of the manager, or a guard of the lock. */
export type ElectionHold<G extends ElectionGround = LeaseManager> = G extends ProcessLock
  ? ProcessGuard<'exclusive'>
  : Lease;

/** For `new LeaderElection(ground, name, options)`. */
export interface LeaderElectionOptions<G extends ElectionGround = LeaseManager> {
  /**
   * Called when this candidate becomes the leader, with its lease or guard. Pass the token of the lease or guard with every
   * write. The term does not end when the function returns, but when the signal aborts, or when the function throws or
   * rejects. `signal` aborts when the term ends for any reason: with a LeaseLostError, or with a LockError (ERR_LEASE_RESIGNED)
   * on `resign` and `close`. `aborted` reads the clock, as `lease.signal` does. The next call waits until the last one settles.
   */
  onElected: (held: ElectionHold<G>, signal: HostSignal) => void | PromiseLike<void>;
  /**
   * Called when the term has ended without `resign` or `close`: with the LeaseLostError, or with the error of `onElected`. Its
   * own errors are not caught.
   */
  onLost?: (reason: Error) => void;
  /**
   * Called each time the store or the file permanently refuses, as for missing rights or a client that has ended, with the
   * error of the acquisition. The election retries after a pause of 1 to 30 seconds. Default: one process warning, code
   * STRIPELOCK_ELECTION_FAILED, until it is elected again. Its errors are not caught.
   */
  onError?: (error: Error) => void;
  /**
   * Milliseconds, whole, 1 … 2^42. Default 10_000, less than for other leases, because no leader is elected for this time after
   * one was killed. The lease is renewed every third of it, so a leader stays leader while its store or event loop does not
   * respond for two thirds. Over a ProcessLock it only limits how long `resign` waits for `onElected`, because the kernel
   * frees the keys of a process that ends.
   */
  ttl?: number;
}

const OPTIONS: Names<LeaderElectionOptions<ElectionGround>> = {
  onElected: true,
  onLost: true,
  onError: true,
  ttl: true,
};

/** The elections that stand, by name. Only of managers that take their own leases again. */
const standing = new WeakMap<ElectionGround, Map<string, object>>();

/** The hold of a leader. `lost` aborts if it ends before its release. */
interface Won<T> {
  readonly held: T;
  readonly lost: AbortSignal;
}

/** The `lost` signal of a guard, which never aborts, because a guard cannot be lost. */
const NEVER = new AbortController().signal;

/** The codes of acquisitions after the manager, or the lock, was closed. */
const CLOSED: ReadonlySet<unknown> = new Set(['ERR_LEASE_MANAGER_CLOSED', 'ERR_LOCK_CLOSED']);

/**
 * One leader at a time among all that stand for the same name: over one store in threads, processes and machines, or over the
 * file of one `ProcessLock` in the threads and processes of a machine. The leader holds the lease, or the key, of the name.
 * When the leader resigns, closes, dies or loses the lease, the next one is elected: after a resignation as soon as the
 * release is reported, after a death when the lease expires. Over a `ProcessLock`, the kernel elects the next one when the
 * leader's process ends.
 *
 * No lease can promise that a former leader has stopped: see `Lease`. Check the signal, the deadline and the token. A leader
 * over a `ProcessLock` leads as long as its thread lives.
 *
 * It keeps the process alive from {@link start} to {@link resign}. Except for the TTL, the manager's options apply. A manager
 * with a `holder` accepts one election of a name at a time, and a `reentrant` manager none. Close the manager, or the lock,
 * after its elections.
 */
export class LeaderElection<G extends ElectionGround = LeaseManager> implements AsyncDisposable {
  /**
   * Enumerable, so that structured clone refuses it.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  /** The key of the lease, or of the lock. */
  readonly name: string;
  readonly #ground: G;
  readonly #options: LeaderElectionOptions<G>;
  readonly #ttl: number;
  /** The hold of the last term, and the signal of that term. */
  #term: { readonly held: ElectionHold<ElectionGround>; readonly signal: AbortSignal } | undefined;
  /** The last call of `onElected`. */
  #work: Promise<void> = Promise.resolve();
  /** Whether a failure was reported since it was last elected. */
  #hasWarned = false;
  /** Ends the candidature. Undefined if it does not stand. */
  #candidate: AbortController | undefined;
  /** Resolves when the last candidature has ended. */
  #ended: Promise<void> = Promise.resolve();
  #closed = false;

  /**
   * It does not stand before {@link start}. Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for
   * bad arguments, and for a TTL that does not fit the manager's options for leases.
   */
  constructor(ground: G, name: string, options: LeaderElectionOptions<G>) {
    if (!(ground instanceof LeaseManager) && !(ground instanceof ProcessLock))
      throw invalidArgType('ground', 'a LeaseManager or a ProcessLock', ground);
    if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
    checkOptionsObject(options, OPTIONS);
    const { onElected, onLost, onError, ttl } = options;
    checkFunction(onElected, 'options.onElected');
    if (onLost !== undefined) checkFunction(onLost, 'options.onLost');
    if (onError !== undefined) checkFunction(onError, 'options.onError');
    this.#ttl = ttl === undefined ? DEFAULT_TTL : checkTtl(ttl, 'options.ttl');
    if (ground instanceof LeaseManager) checkUnshared(ground, { ttl: this.#ttl });
    else if (ground.limit > 1) throw outOfRange('ground.limit', '1, so that one leads', ground.limit);
    this.name = checkKey(name);
    this.#ground = ground;
    this.#options = options;
  }

  /** Whether it leads now. Reads the clock, so it is right even after the event loop was blocked. */
  get leading(): boolean {
    const term = this.#term;
    return term !== undefined && !term.signal.aborted && term.held.held;
  }

  /**
   * Stands for the election until {@link resign} or {@link close}. Nothing if it does already. Throws a LockError:
   * ERR_LEASE_ELECTION_CLOSED after `close`, ERR_LEASE_ELECTION_DUPLICATE if the manager has a `holder` and another election
   * of this name has not resigned, or its `resign` has not ended.
   */
  start(): void {
    if (this.#closed) throw new LockError('ERR_LEASE_ELECTION_CLOSED', 'the LeaderElection was closed');
    if (this.#candidate !== undefined) return;
    this.#enter();
    const candidate = new AbortController();
    this.#candidate = candidate;
    this.#ended = this.#ended
      .then(() => this.#stand(candidate.signal))
      .then(() => {
        if (this.#candidate === undefined || this.#candidate === candidate) this.#leave();
      });
  }

  /**
   * Stops leading, or standing for it, until {@link start} is called again. Aborts the signal of `onElected`, waits until
   * that has settled, for one TTL at most, and then releases the lease: the next leader does not begin before the last has
   * ended its work. So `onElected` must not wait for it. Never rejects; a lease that the store fails to release ends with
   * its TTL.
   */
  resign(): Promise<void> {
    this.#candidate?.abort(new LockError('ERR_LEASE_RESIGNED', `the leader of '${this.name}' has resigned`));
    this.#candidate = undefined;
    return this.#ended;
  }

  /** Resigns for good. The manager stays open: it belongs to the caller. */
  close(): Promise<void> {
    this.#closed = true;
    return this.resign();
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * What `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspectBound(this, options);
  }

  /** Two elections would take the lease from each other, again and again. */
  #enter(): void {
    const ground = this.#ground;
    if (ground instanceof ProcessLock || !takesItsOwn(ground)) return;
    let elections = standing.get(ground);
    if (elections === undefined) standing.set(ground, (elections = new Map<string, object>()));
    if ((elections.get(this.name) ?? this) !== this) throw duplicate(this.name);
    elections.set(this.name, this);
  }

  #leave(): void {
    const elections = standing.get(this.#ground);
    // After several resignations in a row, another one may have entered.
    if (elections?.get(this.name) === this) elections.delete(this.name);
  }

  /** Is elected again and again. Never rejects. */
  async #stand(resigned: AbortSignal): Promise<void> {
    let length = FIRST_PAUSE;
    while (!resigned.aborted) {
      await this.#workSettled(resigned);
      const won = await this.#win(resigned);
      if (won === 'closed') return;
      const began = timerNow();
      const failed = won === undefined || (await this.#lead(won, resigned));
      if (timerNow() - began > this.#ttl) length = FIRST_PAUSE;
      if (!failed) continue;
      await pause(length, resigned);
      length = Math.min(2 * length, LONGEST_PAUSE);
    }
  }

  /** Resolves when the last call of `onElected` has settled, or when this resigns. Its timer keeps the process alive. */
  async #workSettled(resigned: AbortSignal): Promise<void> {
    const settled = new AbortController();
    const end = (): void => settled.abort();
    void this.#work.then(end);
    resigned.addEventListener('abort', end);
    if (!resigned.aborted) await pause(Infinity, settled.signal);
    resigned.removeEventListener('abort', end);
  }

  /** Undefined if the store or the file refuses for good, which its owner may change. Other failures are retried. */
  async #win(signal: AbortSignal): Promise<Won<ElectionHold<G>> | 'closed' | undefined> {
    const ground: ElectionGround = this.#ground;
    const wait = { timeout: Infinity, signal };
    let won: Won<ElectionHold<ElectionGround>>;
    try {
      if (ground instanceof ProcessLock) {
        won = { held: await ground.acquire(this.name, wait), lost: NEVER };
      } else {
        const lease = await ground.acquire(this.name, { ttl: this.#ttl, ...wait });
        won = { held: lease, lost: lease.signal };
      }
      return won as Won<ElectionHold<G>>;
    } catch (error) {
      if (CLOSED.has((error as Partial<LockError>).code)) return 'closed';
      if (!signal.aborted) this.#report(error as Error);
      return undefined;
    }
  }

  /** The callback's errors are uncaught, as in {@link #reportLoss}. */
  #report(error: Error): void {
    const { onError } = this.#options;
    if (onError !== undefined) queueMicrotask(() => onError(error));
    else if (!this.#hasWarned) warnOf(this.name, error);
    this.#hasWarned = true;
  }

  /** Leads until it resigns or loses the lease. True if `onElected` has failed. */
  async #lead({ held, lost }: Won<ElectionHold<G>>, resigned: AbortSignal): Promise<boolean> {
    const { onElected } = this.#options;
    const term = new AbortController();
    if (resigned.aborted || lost.aborted) {
      await release(held);
      return false;
    }
    const stop = (): void => term.abort(resigned.aborted ? resigned.reason : lost.reason);
    for (const signal of [resigned, lost]) signal.addEventListener('abort', stop);
    // To read `lost.aborted` after a block aborts both.
    const signal = heldSignal(term.signal, () => !lost.aborted);
    this.#term = { held, signal };
    this.#hasWarned = false;
    const outcome = { failed: false };
    this.#work = (async () => onElected(held, signal))().catch((error: unknown) => {
      // An error after the abort does not count as a failure.
      if (term.signal.aborted) return;
      outcome.failed = true;
      term.abort(error instanceof Error ? error : new Error(messageOf(error), { cause: error }));
    });
    // Its timer keeps the process alive.
    while (!term.signal.aborted) await pause(Infinity, term.signal);
    for (const signal of [resigned, lost]) signal.removeEventListener('abort', stop);
    if (term.signal.reason !== resigned.reason) this.#reportLoss(term.signal.reason as Error);
    await settledWithin(this.#ttl, this.#work);
    await release(held);
    return outcome.failed;
  }

  /** The callback's errors are uncaught, like the errors of an event listener. */
  #reportLoss(reason: Error): void {
    queueMicrotask(() => this.#options.onLost?.(reason));
  }
}

/** Releases what a leader held. A lease that its store fails to release ends with its TTL. */
async function release(held: ElectionHold<ElectionGround>): Promise<void> {
  if (Symbol.asyncDispose in held) await held[Symbol.asyncDispose]();
  else held.release();
}

function duplicate(name: string): LockError {
  return new LockError(
    'ERR_LEASE_ELECTION_DUPLICATE',
    `another election of '${name}' stands in this LeaseManager. Its \`holder\` takes its own lease again, so both would ` +
      'lead: await `resign()` of the other one, or make another manager',
  );
}

function warnOf(name: string, error: Error): void {
  warn(
    'STRIPELOCK_ELECTION_FAILED',
    `the election of '${name}' cannot be won, and is tried again: ${messageOf(error)}`,
  );
}
