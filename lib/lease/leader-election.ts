import { checkFunction, checkOptionsObject, type Names } from '../common/checks.js';
import { invalidArgType, LockError } from '../common/errors.js';
import { timerNow } from '../common/elapsed.js';
import { queueMicrotask } from '../common/host.js';
import { pause } from '../common/pause.js';
import type { HostSignal } from '../common/types.js';
import { messageOf } from './contract/errors.js';
import { checkKey, checkTtl } from './contract/lease-store.js';
import type { Lease } from './hold/lease.js';
import { checkUnshared, LeaseManager } from './manager.js';

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
   * whatever reason: with a LeaseLostError, or with a LockError (ERR_LEASE_RESIGNED) on `resign` and `close`.
   */
  onElected: (lease: Lease, signal: HostSignal) => void | PromiseLike<void>;
  /**
   * Called when leading has ended without `resign` or `close`: with the LeaseLostError, or with what `onElected` threw.
   * What it throws is not caught.
   */
  onLost?: (reason: Error) => void;
  /**
   * Milliseconds, whole, 1 … 2^42. Default 10_000, less than that of other leases: it is the time for which there may be no
   * leader after one was killed. The lease is renewed every third of it, so a leader survives a store, or an event loop,
   * that is gone for two thirds.
   */
  ttl?: number;
}

const OPTIONS: Names<LeaderElectionOptions> = { onElected: true, onLost: true, ttl: true };

/**
 * One leader at a time among all that stand for the same name over one store, in threads, processes and machines. The leader
 * holds the lease of the name. When it resigns, closes, dies or loses the lease, the next one is elected: after a
 * resignation as soon as it hears of the release, after a death when the lease expires.
 *
 * No lease can promise that a former leader has stopped: see `Lease`. Its signal, its deadline and its token tell.
 *
 * It keeps the process alive from {@link start} to {@link resign}. All but the TTL is as the manager's leases are. A manager
 * with a `holder` takes one election of a name, and one that is `reentrant` none. Close it after its elections.
 */
export class LeaderElection implements AsyncDisposable {
  /** What it stands for: the key of the lease. */
  readonly name: string;
  readonly #leases: LeaseManager;
  readonly #options: LeaderElectionOptions;
  readonly #ttl: number;
  /** The lease, while it leads. */
  #lease: Lease | undefined;
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
    const { onElected, onLost, ttl } = options;
    checkFunction(onElected, 'options.onElected');
    if (onLost !== undefined) checkFunction(onLost, 'options.onLost');
    this.#ttl = ttl === undefined ? DEFAULT_TTL : checkTtl(ttl, 'options.ttl');
    checkUnshared(leases, { ttl: this.#ttl });
    this.name = checkKey(name);
    this.#leases = leases;
    this.#options = options;
  }

  /** Whether it leads now. Reads the clock, so it is right even after the event loop was blocked. */
  get leading(): boolean {
    return this.#candidate !== undefined && this.#lease?.held === true;
  }

  /**
   * Stands for the election until {@link resign} or {@link close}. Nothing if it does already. Throws a LockError
   * (ERR_LEASE_ELECTION_CLOSED) after `close`.
   */
  start(): void {
    if (this.#closed) throw new LockError('ERR_LEASE_ELECTION_CLOSED', 'the LeaderElection was closed');
    if (this.#candidate !== undefined) return;
    const candidate = new AbortController();
    this.#candidate = candidate;
    this.#ended = this.#ended.then(() => this.#stand(candidate.signal));
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

  /** Is elected again and again. Never rejects. */
  async #stand(resigned: AbortSignal): Promise<void> {
    let length = FIRST_PAUSE;
    while (!resigned.aborted) {
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

  /** Undefined if the store refuses for good, which its owner may change. Its other failures are retried. */
  async #win(resigned: AbortSignal): Promise<Lease | 'closed' | undefined> {
    try {
      return await this.#leases.acquire(this.name, { ttl: this.#ttl, timeout: Infinity, signal: resigned });
    } catch (error) {
      return (error as Partial<LockError>).code === 'ERR_LEASE_MANAGER_CLOSED' ? 'closed' : undefined;
    }
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
    this.#lease = lease;
    const outcome = { failed: false };
    const work = (async () => onElected(lease, term.signal))().catch((error: unknown) => {
      // What it throws because it was told to stop is no failure.
      if (term.signal.aborted) return;
      outcome.failed = true;
      term.abort(error instanceof Error ? error : new Error(messageOf(error), { cause: error }));
    });
    // Its timer keeps the process alive.
    while (!term.signal.aborted) await pause(Infinity, term.signal);
    this.#lease = undefined;
    for (const signal of [resigned, lost]) signal.removeEventListener('abort', end);
    if (term.signal.reason !== resigned.reason) this.#tellLost(term.signal.reason as Error);
    const settled = new AbortController();
    await Promise.race([work, pause(this.#ttl, settled.signal)]);
    settled.abort();
    await lease[Symbol.asyncDispose]();
    return outcome.failed;
  }

  /** What the callback throws is uncaught, like an error of an event listener. */
  #tellLost(reason: Error): void {
    queueMicrotask(() => this.#options.onLost?.(reason));
  }
}
