import { localNow } from '../common/elapsed.js';
import type { LockError } from '../common/errors.js';
import { pause, settledWithin } from '../common/timers.js';
import { PendingOperations } from '../common/pending-operations.js';
import type { ThreadCounts } from '../engine/contract/counts.js';
import type { LeaseContention } from './contention.js';
import { isPermanent, storeFailure } from './contract/errors.js';
import type { Backoff } from './contract/options.js';
import { EXPIRED, type Hold } from './hold.js';
import type { Schedule } from './schedule.js';
import type { StoreRequests } from './store-requests.js';

/**
 * The maximum number of releases that wait for an answer at the same time. Without this maximum, thousands of
 * releases would wait in the store's client until their time limits expire.
 */
const MOST_RELEASES = 50;

/** The record that a manager keeps of its grants. */
export interface KnownGrants {
  /** The counts of the manager's thread, for metrics. */
  readonly counts: ThreadCounts;
  readonly contention: LeaseContention;
  /**
   * Whether owners are stable, which means that successive leases have the same owner. The store
   * cannot distinguish two leases of such an owner, so an operation on one lease must not overtake an
   * earlier operation on another lease.
   */
  readonly stableOwners: boolean;
  /** Whether the same owner was granted the key again after this hold. */
  hasLater(hold: Hold): boolean;
  /** Removes the hold from the record, because it was lost or its key was freed. */
  forget(hold: Hold): void;
}

/**
 * Sends all operations on held keys: automatic renewals, renewals by calls of `renew`, changes of `info`
 * texts, and releases. If the order matters, the operations of one owner on one key are sent one after the
 * other.
 *
 * Each manager has a heartbeat. If leases are renewed in the background, the renewing thread has a second
 * heartbeat for the same store. While a hold has a `background`, the second heartbeat renews the hold;
 * otherwise the manager's heartbeat renews it.
 */
export class Heartbeat {
  readonly schedule: Schedule<Hold>;
  /**
   * The manager's record of its grants. Undefined in the renewing thread, which renews leases that another
   * thread holds, counts and releases.
   */
  readonly grants: KnownGrants | undefined;
  readonly #requests: StoreRequests;
  readonly #backoff: Backoff;
  /**
   * For each lane (see {@link inOrder}), a promise that resolves when the last operation of the lane has
   * ended.
   */
  readonly #last = new Map<unknown, Promise<void>>();
  /** Releases that have no answer yet, and background renewals that are being stopped. */
  readonly #ending: PendingOperations;

  constructor(
    requests: StoreRequests,
    schedule: Schedule<Hold>,
    backoff: Backoff,
    grants?: KnownGrants,
    ending = new PendingOperations(),
  ) {
    this.#requests = requests;
    this.schedule = schedule;
    this.#backoff = backoff;
    this.grants = grants;
    this.#ending = ending;
  }

  /**
   * Runs the operation after all earlier operations in the same lane have ended. Each hold has a separate
   * lane, unless owners are stable: then all holds of a key share one lane. The operation must not wait for a
   * later operation in its lane. `patience`: the maximum wait in milliseconds. After that time the operation
   * runs in any case, because a store may never answer.
   */
  async inOrder<T>(lane: unknown, operation: () => Promise<T>, patience = Infinity): Promise<T> {
    const { turn, leave } = this.enter(lane);
    try {
      if (turn !== undefined) await (patience === Infinity ? turn : settledWithin(patience, turn));
      return await operation();
    } finally {
      leave();
    }
  }

  /**
   * Adds an operation to the lane synchronously, so that no listener can add another operation first. `turn`
   * resolves when the earlier operations have ended; it is undefined if the lane is empty. Later operations
   * wait until `leave` is called.
   */
  enter(lane: unknown): { readonly turn: Promise<void> | undefined; readonly leave: () => void } {
    const turn = this.#last.get(lane);
    let end!: () => void;
    const left = new Promise<void>((resolve) => (end = resolve));
    const leave = (): void => {
      if (this.#last.get(lane) === left) this.#last.delete(lane);
      end();
    };
    this.#last.set(lane, left);
    return { turn, leave };
  }

  /**
   * Extends the lease of a hold to `ttl` milliseconds from now. False if the hold has ended. Rejects with the
   * store's error if the store fails; the lease is then still held until its deadline.
   */
  async renew(held: Hold, ttl: number, info?: string): Promise<boolean> {
    if (!held.checkHeld()) return false;
    const renewed = await held.during(() => this.#inOrderOf(held, () => this.#renew(held, ttl, info)));
    if (renewed !== 'late') return renewed;
    // The store extended a lease that is already lost here. The key is freed, so that other owners need not
    // wait until the lease expires.
    await held.takeBackExpired().catch(() => undefined);
    return false;
  }

  /**
   * Releases the key of a hold that has ended. If the hold's `minHold` has not passed, the store keeps the
   * key taken for the rest of that time. True if this call ended the grant. Never ends the grant of a later
   * acquisition of the same owner. Rejects with a LeaseStoreError, or with the store's permanent error.
   */
  end(hold: Hold): Promise<boolean> {
    // An owner that is not stable has only one lease. If a renewal reaches the store after this release, that
    // renewal finds nothing to extend. So the release need not wait for the renewal's answer.
    if (!hold.hasStableOwner) {
      if (hold.background !== undefined) void this.#ending.add(hold.detach());
      return this.#ending.add(this.#end(hold));
    }
    const end = async (): Promise<boolean> => {
      await hold.detach();
      return this.#end(hold);
    };
    return this.#ending.add(this.#inOrderOf(hold, end, this.#timeLeft(hold)));
  }

  /**
   * Frees the key of a hold that was lost before its holder released it. The result is the same as for
   * {@link end}.
   */
  takeBack(hold: Hold): Promise<boolean> {
    return this.#ending.add(this.#end(hold, true));
  }

  async #end(hold: Hold, wasLost = false): Promise<boolean> {
    if (this.grants?.hasLater(hold) === true) return false;
    const { name, owner, abandoned, minHoldLeft, knownToken: token } = hold;
    try {
      const end = (): Promise<boolean> => {
        if (hold.reader !== undefined)
          return this.#requests.releaseShared(name, hold.reader, hold.recordRelease);
        // The next holder must see that a lost lease was abandoned. So instead of being ended by `keep`, the
        // lease is extended until `minHold` has passed.
        if (minHoldLeft > 0 && wasLost) return this.#requests.renew(name, owner, minHoldLeft);
        if (minHoldLeft > 0) return this.#requests.keep(name, owner, minHoldLeft, token);
        if (wasLost) return this.#requests.takeBack(name, owner, token, true);
        if (hold.isGivenBack) return this.#requests.giveBack(name, owner, 'exclusive', { token, abandoned });
        return this.#requests.release(name, owner, token);
      };
      const ended = await end();
      this.grants?.forget(hold);
      // Ends the wait for the deadline of a reader that was lost before it.
      if (hold.reader !== undefined) this.schedule.clear(hold);
      return ended;
    } catch (error) {
      const failure = storeFailure('release', name, error);
      hold.announceFailure('release', failure);
      throw failure;
    }
  }

  /** Releases these holds. Repeats failed releases, and resolves, as {@link repeat} does. */
  endAll(holds: readonly Hold[]): Promise<LockError | undefined> {
    // The offset from the manager's clock to real time. Repeats use real time, because the manager's clock
    // may stand still.
    const ahead = localNow() - this.schedule.now();
    return this.repeat(holds.map((hold) => ({ send: () => this.end(hold), endsAt: hold.expiresAt + ahead })));
  }

  /**
   * Sends the releases, at most `MOST_RELEASES` at a time. A release that fails is repeated after growing
   * pauses, until its lease expires. Resolves to the error of the first release that was given up; undefined
   * if none was given up. `closing`: when this signal aborts, failed releases are sent once more,
   * immediately, and then given up. With `closing`, the pauses do not keep the process alive.
   */
  async repeat(releases: readonly Release[], closing?: AbortSignal): Promise<LockError | undefined> {
    const { initial, max } = this.#backoff;
    let failure: LockError | undefined;
    let left = releases;
    for (let length = initial; ; length = Math.min(2 * length, max)) {
      const repeatsUntil = closing?.aborted === true ? Infinity : localNow() + length;
      const failed = await sendEach(left);
      const again = failed.filter(({ endsAt, error }) => endsAt > repeatsUntil && !isPermanent(error));
      failure ??= failed.find((release) => !again.includes(release))?.error;
      if (again.length === 0) return failure;
      left = again;
      await pause(length, closing, closing === undefined);
    }
  }

  /** Call after a hold was lost. Stops its background renewals. */
  lost(hold: Hold): void {
    this.grants?.forget(hold);
    if (hold.background !== undefined) void this.stop(hold);
  }

  /**
   * Stops the background renewals of the hold, after earlier operations on the hold have ended. Later
   * operations on the hold wait until the renewals have stopped.
   */
  stop(held: Hold): Promise<void> {
    return this.#ending.add(this.#inOrderOf(held, () => held.detach(), this.#timeLeft(held)));
  }

  #inOrderOf<T>(held: Hold, operation: () => Promise<T>, patience?: number): Promise<T> {
    return this.inOrder(held.hasStableOwner ? held.name : held, operation, patience);
  }

  #timeLeft(held: Hold): number {
    return Math.max(0, held.expiresAt - this.schedule.now());
  }

  async #renew(held: Hold, ttl: number, info: string | undefined): Promise<boolean | 'late'> {
    if (!held.checkHeld()) return false;
    // A `ttl` that is shorter than the remaining time shortens the local deadline. So the hold must be
    // checked at the new deadline.
    held.plan(this.schedule.now() + ttl);
    return held.background?.renew(ttl, info) ?? this.#send(held, ttl, info);
  }

  /**
   * Sends the renewal to the store. The result is `late` if the store extended the lease, but the hold had
   * ended before the answer came.
   */
  async #send(held: Hold, ttl: number, info: string | undefined): Promise<boolean | 'late'> {
    const { schedule } = this;
    // The new deadline counts from the time before the request was sent, so that it is never later than the
    // store's deadline.
    const until = schedule.now() + ttl;
    // A store that breaks its contract may shorten the lease, and its answer may be lost. So if the new
    // deadline is earlier than the current one, the new deadline applies at once.
    if (until < held.expiresAt) held.expiresAt = until;
    let renewed: boolean;
    try {
      renewed = await this.#requests.renew(held.name, held.owner, ttl, info);
    } catch (error) {
      held.retryBy(this.#backoff);
      const failure = storeFailure('renew', held.key, error);
      held.failed(failure);
      throw failure;
    }
    held.answered();
    if (held.isReleased) return false;
    if (!renewed) {
      held.lose('the store says that it expired or was taken');
      return false;
    }
    if (schedule.now() >= until) held.lose(EXPIRED);
    if (held.ended) return 'late';
    held.extended(until, ttl);
    return true;
  }
}

/** The release of a lease. */
interface Release {
  readonly send: () => Promise<unknown>;
  /** The time when the lease expires, in real time. */
  readonly endsAt: number;
}

interface FailedRelease extends Release {
  readonly error: LockError;
}

/**
 * Sends the releases, and resolves to the releases that failed. After the first failure, releases of expired
 * leases are skipped.
 */
async function sendEach(releases: readonly Release[]): Promise<readonly FailedRelease[]> {
  const rest = releases.values();
  const failed: FailedRelease[] = [];
  const sendNext = async (): Promise<void> => {
    for (const release of rest) {
      if (failed.length > 0 && release.endsAt <= localNow()) continue;
      await release.send().catch((error: unknown) => {
        failed.push({ ...release, error: error as LockError });
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(MOST_RELEASES, releases.length) }, sendNext));
  return failed;
}
