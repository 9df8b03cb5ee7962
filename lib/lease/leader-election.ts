import { inspect, type InspectOptions } from 'node:util';
import { checkFunction, checkOptionsObject, type Names } from '../common/checks.js';
import { invalidArgType, LockError } from '../common/errors.js';
import { timerNow } from '../common/elapsed.js';
import { queueMicrotask } from '../common/host.js';
import { pause, settledWithin } from '../common/pause.js';
import { inspectBound, threadBound } from '../common/thread-bound.js';
import type { HostSignal } from '../common/types.js';
import { messageOf } from './contract/errors.js';
import { checkKey, checkTtl } from './contract/lease-store.js';
import { heldSignal, type Lease } from './lease.js';
import { checkUnshared, LeaseManager, takesItsOwn } from './manager.js';

const THREAD_BOUND = threadBound('LeaderElection', 'create one there, over a LeaseManager of that thread');

/** Milliseconds. See {@link LeaderElectionOptions.ttl}. */
const DEFAULT_TTL = 10_000;
/** Milliseconds before a candidate stands again after it has failed; doubled until it has led for a TTL. */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

/** For `new LeaderElection(leases, name, options)`. */
export interface LeaderElectionOptions {
  /**
   * Called when this one has become the leader, with its lease: pass `lease.token` along with every write. Leading does not
   * end when it returns, but when the signal aborts, or when it throws or rejects. `signal` aborts when leading ends for
   * whatever reason: with a LeaseLostError, or with a LockError (ERR_LEASE_RESIGNED) on `resign` and `close`. `aborted`
   * reads the clock, as `lease.signal` does. It is not called again before the last call has settled.
   */
  onElected: (lease: Lease, signal: HostSignal) => void | PromiseLike<void>;
  /**
   * Called when leading has ended without `resign` or `close`: with the LeaseLostError, or with what `onElected` threw.
   * What it throws is not caught.
   */
  onLost?: (reason: Error) => void;
  /**
   * Called each time the store refuses for good, as for missing rights or a client that has ended: with the LockError, or
   * whatever else an acquisition throws. The election tries again after a pause of 1 to 30 seconds. Default: a process
   * warning, code STRIPELOCK_ELECTION_FAILED, until it is elected again. What it throws is not caught.
   */
  onError?: (error: Error) => void;
  /**
   * Milliseconds, whole, 1 … 2^42. Default 10_000, less than that of other leases: it is the time for which there may be no
   * leader after one was killed. The lease is renewed every third of it, so a leader survives a store, or an event loop,
   * that is gone for two thirds.
   */
  ttl?: number;
}

const OPTIONS: Names<LeaderElectionOptions> = { onElected: true, onLost: true, onError: true, ttl: true };

/** The elections that stand, by name. Only of managers that take their own leases again. */
const standing = new WeakMap<LeaseManager, Map<string, LeaderElection>>();

/**
 * One leader at a time among all that stand for the same name over one store, in threads, processes and machines. The leader
 * holds the lease of the name. When it resigns, closes, dies or loses the lease, the next one is elected: after a
 * resignation as soon as it hears of the release, after a death when the lease expires.
 *
 * No lease can promise that a former leader has stopped: see `Lease`. Its signal, its deadline and its token tell.
 *
 * It keeps the process alive from {@link start} to {@link resign}. All but the TTL is as the manager's leases are. A manager
 * with a `holder` takes one election of a name at a time, and one that is `reentrant` none. Close it after its elections.
 */
export class LeaderElection implements AsyncDisposable {
  /**
   * Enumerable, so that structured clone refuses it.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  /** What it stands for: the key of the lease. */
  readonly name: string;
  readonly #leases: LeaseManager;
  readonly #options: LeaderElectionOptions;
  readonly #ttl: number;
  /** The last lease that it won, and the signal of its term. */
  #term: { readonly lease: Lease; readonly signal: AbortSignal } | undefined;
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
   * bad arguments, also where the TTL does not fit to what the manager says of its leases.
   */
  constructor(leases: LeaseManager, name: string, options: LeaderElectionOptions) {
    if (!((leases as unknown) instanceof LeaseManager))
      throw invalidArgType('leases', 'a LeaseManager', leases);
    if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
    checkOptionsObject(options, OPTIONS);
    const { onElected, onLost, onError, ttl } = options;
    checkFunction(onElected, 'options.onElected');
    if (onLost !== undefined) checkFunction(onLost, 'options.onLost');
    if (onError !== undefined) checkFunction(onError, 'options.onError');
    this.#ttl = ttl === undefined ? DEFAULT_TTL : checkTtl(ttl, 'options.ttl');
    checkUnshared(leases, { ttl: this.#ttl });
    this.name = checkKey(name);
    this.#leases = leases;
    this.#options = options;
  }

  /** Whether it leads now. Reads the clock, so it is right even after the event loop was blocked. */
  get leading(): boolean {
    const term = this.#term;
    return term !== undefined && !term.signal.aborted && term.lease.held;
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
    if (!takesItsOwn(this.#leases)) return;
    let elections = standing.get(this.#leases);
    if (elections === undefined) standing.set(this.#leases, (elections = new Map<string, LeaderElection>()));
    if ((elections.get(this.name) ?? this) !== this) throw duplicate(this.name);
    elections.set(this.name, this);
  }

  #leave(): void {
    const elections = standing.get(this.#leases);
    // After several resignations in a row, another one may have entered.
    if (elections?.get(this.name) === this) elections.delete(this.name);
  }

  /** Is elected again and again. Never rejects. */
  async #stand(resigned: AbortSignal): Promise<void> {
    let length = FIRST_PAUSE;
    while (!resigned.aborted) {
      await this.#workSettled(resigned);
      const lease = await this.#win(resigned);
      if (lease === 'closed') return;
      const began = timerNow();
      const failed = lease === undefined || (await this.#lead(lease, resigned));
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

  /** Undefined if the store refuses for good, which its owner may change. Its other failures are retried. */
  async #win(resigned: AbortSignal): Promise<Lease | 'closed' | undefined> {
    try {
      return await this.#leases.acquire(this.name, { ttl: this.#ttl, timeout: Infinity, signal: resigned });
    } catch (error) {
      if ((error as Partial<LockError>).code === 'ERR_LEASE_MANAGER_CLOSED') return 'closed';
      if (!resigned.aborted) this.#report(error as Error);
      return undefined;
    }
  }

  /** What the callback throws is uncaught, as in {@link #tellLost}. */
  #report(error: Error): void {
    const { onError } = this.#options;
    if (onError !== undefined) queueMicrotask(() => onError(error));
    else if (!this.#hasWarned) warnOf(this.name, error);
    this.#hasWarned = true;
  }

  /** Leads until it is told to stop, or loses the lease. True if `onElected` has failed. */
  async #lead(lease: Lease, resigned: AbortSignal): Promise<boolean> {
    const { onElected } = this.#options;
    const term = new AbortController();
    const { signal: lost } = lease;
    if (resigned.aborted || lost.aborted) {
      await lease[Symbol.asyncDispose]();
      return false;
    }
    const end = (): void => term.abort(resigned.aborted ? resigned.reason : lost.reason);
    for (const signal of [resigned, lost]) signal.addEventListener('abort', end);
    // To read `lost.aborted` after a block aborts both.
    const signal = heldSignal(term.signal, () => !lost.aborted);
    this.#term = { lease, signal };
    this.#hasWarned = false;
    const outcome = { failed: false };
    this.#work = (async () => onElected(lease, signal))().catch((error: unknown) => {
      // What it throws because it was told to stop is no failure.
      if (term.signal.aborted) return;
      outcome.failed = true;
      term.abort(error instanceof Error ? error : new Error(messageOf(error), { cause: error }));
    });
    // Its timer keeps the process alive.
    while (!term.signal.aborted) await pause(Infinity, term.signal);
    for (const signal of [resigned, lost]) signal.removeEventListener('abort', end);
    if (term.signal.reason !== resigned.reason) this.#tellLost(term.signal.reason as Error);
    await settledWithin(this.#ttl, this.#work);
    await lease[Symbol.asyncDispose]();
    return outcome.failed;
  }

  /** What the callback throws is uncaught, like an error of an event listener. */
  #tellLost(reason: Error): void {
    queueMicrotask(() => this.#options.onLost?.(reason));
  }
}

function duplicate(name: string): LockError {
  return new LockError(
    'ERR_LEASE_ELECTION_DUPLICATE',
    `another election of '${name}' stands in this LeaseManager. Its \`holder\` takes its own lease again, so both would ` +
      'lead: await `resign()` of the other one, or make another manager',
  );
}

function warnOf(name: string, error: Error): void {
  process.emitWarning(`the election of '${name}' cannot be won, and is tried again: ${messageOf(error)}`, {
    type: 'StripelockWarning',
    code: 'STRIPELOCK_ELECTION_FAILED',
  });
}
