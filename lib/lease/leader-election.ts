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
import { ProcessLock, refuseClosedLock } from '../process/process-lock.js';
import { messageOf } from './contract/errors.js';
import { checkKey, checkTtl } from './contract/lease-store.js';
import { heldSignal, type Lease } from './lease.js';
import { checkUnshared, LeaseManager, refuseClosedManager, takesItsOwn } from './manager.js';

const THREAD_BOUND = threadBound(
  'LeaderElection',
  'create one there, over a LeaseManager or a ProcessLock of that thread',
);

/** The default TTL, in milliseconds. See {@link LeaderElectionOptions.ttl}. */
const DEFAULT_TTL = 10_000;
/**
 * Milliseconds for which a candidate pauses after its first failure. Each further failure doubles the pause,
 * up to `LONGEST_PAUSE`. If the candidate has led for longer than the TTL, the pause is `FIRST_PAUSE` again.
 */
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

/**
 * The object that candidates use to elect a leader: a manager with its store, or a lock whose file the
 * processes of one machine share.
 */
export type ElectionGround = LeaseManager | ProcessLock;

/** The hold of a leader: a lease of the manager, or a guard of the lock. */
export type ElectionHold<G extends ElectionGround = LeaseManager> = G extends ProcessLock
  ? ProcessGuard<'exclusive'>
  : Lease;

/** Options of `new LeaderElection(ground, name, options)`. */
export interface LeaderElectionOptions<G extends ElectionGround = LeaseManager> {
  /**
   * Called when this candidate becomes the leader. `held` is the leader's lease or guard: pass its token
   * along with every write. The candidate leads until `signal` aborts, or until this function throws or
   * rejects. If the function returns, the candidate continues to lead. `signal` aborts with a LeaseLostError
   * if the lease is lost, and with a LockError (ERR_LEASE_RESIGNED) after `resign` or `close`. Reading
   * `signal.aborted` reads the clock, as with `lease.signal`. The function is not called again until the
   * promise of its last call has settled.
   */
  onElected: (held: ElectionHold<G>, signal: HostSignal) => void | PromiseLike<void>;
  /**
   * Called when this candidate has stopped leading without `resign` or `close`. `reason` is the
   * LeaseLostError, or the error of `onElected`. Errors of this function are not caught.
   */
  onLost?: (reason: Error) => void;
  /**
   * Called with the error each time an acquisition fails permanently. For example, permissions are missing,
   * or the store's client was closed. The candidate retries after a pause of 1 to 30 seconds. Default: a
   * process warning with the code STRIPELOCK_ELECTION_FAILED, at most once until this candidate is elected
   * again. Errors of this function are not caught.
   */
  onError?: (error: Error) => void;
  /**
   * The time to live of the leader's lease: whole milliseconds, 1 … 2^42. Default 10_000. If a leader is
   * killed, no other leader is elected until the TTL of the lease expires, so the default is shorter than
   * that of other leases. The lease is renewed every ttl/3. So a leader stays the leader even if its store or
   * event loop does not respond for two thirds of the TTL. With a ProcessLock, the kernel frees the keys of a
   * process that ends. The TTL then only limits how long `resign` waits for `onElected`.
   */
  ttl?: number;
}

const OPTIONS: Names<LeaderElectionOptions<ElectionGround>> = {
  onElected: true,
  onLost: true,
  onError: true,
  ttl: true,
};

/**
 * The active elections of each manager, by name. Used only for managers with a `holder`, because the store
 * would grant such a manager a key that the manager already holds.
 */
const standing = new WeakMap<ElectionGround, Map<string, object>>();

/** The hold of a leader. `lost` aborts if the hold ends before it is released. */
interface Won<T> {
  readonly held: T;
  readonly lost: AbortSignal;
}

/** The `lost` signal of a guard, which never aborts, because a guard cannot be lost. */
const NEVER = new AbortController().signal;

/** The codes of the errors that an acquisition throws after the manager or the lock was closed. */
const CLOSED: ReadonlySet<unknown> = new Set(['ERR_LEASE_MANAGER_CLOSED', 'ERR_LOCK_CLOSED']);

/**
 * Elects one leader at a time among all candidates with the same name. With a `LeaseManager`, the candidates
 * are in threads, processes and machines that share a store. With a `ProcessLock`, they are in threads and
 * processes of one machine that share a file. The leader holds the lease, or the key of the lock, with that
 * name.
 *
 * When the leader resigns, closes its election, dies or loses the lease, another candidate is elected. After
 * a resignation, this happens as soon as the release is reported. After the death of a leader, it happens
 * when the lease expires. With a `ProcessLock`, it happens when the leader's process ends, because the kernel
 * then frees the key.
 *
 * A lease cannot guarantee that a former leader has stopped: see `Lease`. Check the signal, the deadline and
 * the token. With a `ProcessLock`, a leader cannot lose its key while its thread lives.
 *
 * An election keeps the process alive from {@link start} to {@link resign}. The manager's options apply to
 * the leases of its elections, except for the TTL. A manager with a `holder` can have only one active
 * election for each name. A `reentrant` manager cannot be used for elections. Close the manager, or the lock,
 * after its elections.
 */
export class LeaderElection<G extends ElectionGround = LeaseManager> implements AsyncDisposable {
  /**
   * An enumerable property that cannot be cloned, so that structured clone refuses the whole object.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  /** The key of the lease, or of the lock. */
  readonly name: string;
  readonly #ground: G;
  readonly #options: LeaderElectionOptions<G>;
  readonly #ttl: number;
  /** The hold and the signal of the last election that this candidate won; undefined before the first. */
  #term: { readonly held: ElectionHold<ElectionGround>; readonly signal: AbortSignal } | undefined;
  /** Resolves when the last call of `onElected` has settled. */
  #work: Promise<void> = Promise.resolve();
  /** Whether a failure was reported since this candidate was last elected. */
  #hasWarned = false;
  /** Aborts when this candidate resigns. Undefined if this candidate does not stand for election. */
  #candidate: AbortController | undefined;
  /** Resolves when this candidate no longer stands for election, and no longer leads. */
  #ended: Promise<void> = Promise.resolve();
  #closed = false;

  /**
   * The candidate does not stand for election before {@link start}. Throws a TypeError (ERR_INVALID_ARG_TYPE)
   * or RangeError (ERR_OUT_OF_RANGE) for bad arguments, and for a TTL that does not fit the manager's options
   * for leases.
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

  /**
   * Whether this candidate leads now. Reads the clock, so the result is right even after the event loop was
   * blocked.
   */
  get leading(): boolean {
    const term = this.#term;
    return term !== undefined && !term.signal.aborted && term.held.held;
  }

  /**
   * Stands for election until {@link resign} or {@link close}. Does nothing if this candidate already stands
   * for election, and its manager or lock is open. Throws a LockError (ERR_LEASE_ELECTION_CLOSED) after
   * `close`, and a LockError (ERR_LEASE_MANAGER_CLOSED or ERR_LOCK_CLOSED) after the manager or the lock was
   * closed. Throws a LockError (ERR_LEASE_ELECTION_DUPLICATE) if the manager has a `holder`, and another
   * election of this name is active. An election is active until the promise of its `resign` has settled.
   */
  start(): void {
    if (this.#closed) throw new LockError('ERR_LEASE_ELECTION_CLOSED', 'the LeaderElection was closed');
    const ground: ElectionGround = this.#ground;
    if (ground instanceof ProcessLock) refuseClosedLock(ground);
    else refuseClosedManager(ground);
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
   * Stops leading, or standing for election, until {@link start} is called again. Aborts the signal of
   * `onElected`. Then waits until `onElected` has settled, for one TTL at most, and releases the lease. So
   * the next leader does not begin before `onElected` has ended, or the TTL has passed. `onElected` must not
   * wait for the returned promise. Never rejects: if the store fails to release the lease, the lease ends
   * when its TTL expires.
   */
  resign(): Promise<void> {
    this.#candidate?.abort(new LockError('ERR_LEASE_RESIGNED', `the leader of '${this.name}' has resigned`));
    this.#candidate = undefined;
    return this.#ended;
  }

  /**
   * Resigns. The election cannot be started again. The manager or lock stays open: it belongs to the caller.
   */
  close(): Promise<void> {
    this.#closed = true;
    return this.resign();
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspectBound(this, options);
  }

  /**
   * Registers this election. Throws if the manager has a `holder` and another election of this name is
   * active. Two such elections would take the lease from each other, again and again.
   */
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
    // After several resignations in a row, another election of this name may already be registered.
    if (elections?.get(this.name) === this) elections.delete(this.name);
  }

  /**
   * Stands for election and leads, again and again, until this candidate resigns or the manager or lock is
   * closed. Never rejects.
   */
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

  /**
   * Resolves when the last call of `onElected` has settled, or when this candidate resigns. The timer of
   * `pause` keeps the process alive.
   */
  async #workSettled(resigned: AbortSignal): Promise<void> {
    const settled = new AbortController();
    const end = (): void => settled.abort();
    void this.#work.then(end);
    resigned.addEventListener('abort', end);
    if (!resigned.aborted) await pause(Infinity, settled.signal);
    resigned.removeEventListener('abort', end);
  }

  /**
   * Waits until this candidate is elected. The result is `closed` if the manager or lock is closed. It is
   * undefined if the acquisition failed permanently, or if this candidate has resigned. After other failures,
   * the acquisition itself retries.
   */
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

  /**
   * Reports a failure to `onError`, or as a warning. Errors of `onError` are uncaught, like the errors of an
   * event listener.
   */
  #report(error: Error): void {
    const { onError } = this.#options;
    if (onError !== undefined) queueMicrotask(() => onError(error));
    else if (!this.#hasWarned) warnOf(this.name, error);
    this.#hasWarned = true;
  }

  /**
   * Leads until this candidate resigns, loses the lease, or `onElected` fails. True if `onElected` has
   * failed.
   */
  async #lead({ held, lost }: Won<ElectionHold<G>>, resigned: AbortSignal): Promise<boolean> {
    const { onElected } = this.#options;
    const term = new AbortController();
    if (resigned.aborted || lost.aborted) {
      await release(held);
      return false;
    }
    const stop = (): void => term.abort(resigned.aborted ? resigned.reason : lost.reason);
    for (const signal of [resigned, lost]) signal.addEventListener('abort', stop);
    // If the lease has expired while the event loop was blocked, reading `lost.aborted` aborts
    // `lost`. That also aborts this signal.
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
    // The timer of `pause` keeps the process alive.
    while (!term.signal.aborted) await pause(Infinity, term.signal);
    for (const signal of [resigned, lost]) signal.removeEventListener('abort', stop);
    const reason = term.signal.reason as Error;
    // Errors of `onLost` are uncaught, like the errors of an event listener.
    if (reason !== resigned.reason) queueMicrotask(() => this.#options.onLost?.(reason));
    await settledWithin(this.#ttl, this.#work);
    await release(held);
    return outcome.failed;
  }
}

/**
 * Releases the hold of a leader. Does not reject if the store fails: the lease then ends when its TTL
 * expires.
 */
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
