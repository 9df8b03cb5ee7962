import { localNow } from '../common/elapsed.js';
import type { LockError } from '../common/errors.js';
import { pause, settledWithin } from '../common/timers.js';
import { PendingOperations } from '../common/pending-operations.js';
import { isPermanent, storeFailure } from './contract/errors.js';
import type { Backoff } from './contract/options.js';
import { EXPIRED, type Hold } from './hold.js';
import type { Schedule } from './schedule.js';
import type { StoreRequests } from './store-requests.js';

/** Releases under way at once. Thousands would wait for one another in the client until each exceeds its time limit. */
const MOST_RELEASES = 50;

/** A manager's knowledge of its owners' grants. */
export interface KnownGrants {
  /**
   * Whether owners outlive their leases. The store cannot distinguish two leases of such an owner, so operations on them must
   * not overtake each other.
   */
  readonly stableOwners: boolean;
  /** Whether the owner may have been granted the key again after this hold. */
  hasLater(hold: Hold): boolean;
  /** The hold was lost, or its key was freed. */
  forget(hold: Hold): void;
  /** After a release, the store keeps the key taken for this many more milliseconds. */
  keepTaken(name: string, milliseconds: number): void;
}

/**
 * The only writer of the keys that are held: it renews them, by timers and by hand, changes their infos, and ends them. One
 * owner's operations on a key are sent one after the other, so none overtakes another.
 *
 * There is one for each manager, and, for leases that are renewed in the background, one in the renewing thread. A hold is
 * renewed by one of them: by that thread as long as it has a `background`.
 */
export class Heartbeat {
  readonly schedule: Schedule<Hold>;
  readonly #requests: StoreRequests;
  readonly #backoff: Backoff;
  /** Undefined in a thread that only renews what another one holds. */
  readonly #grants: KnownGrants | undefined;
  /** For each hold, or for each key of a stable owner: the last operation, settled without a result. */
  readonly #last = new Map<unknown, Promise<void>>();
  /** Releases under way, and renewing threads that are stopping. */
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
    this.#grants = grants;
    this.#ending = ending;
  }

  get stableOwners(): boolean {
    return this.#grants?.stableOwners === true;
  }

  /**
   * Runs the operation after earlier operations on the same lane have ended. A lane is a hold, or a key of a stable owner. The
   * operation must not wait for later operations on its lane. `patience`: the milliseconds after which it runs in any case,
   * because a store may never answer.
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
   * Takes a place in the lane, before any listener can start another operation there. `turn` resolves when earlier operations
   * have ended; undefined if the lane is empty. Later operations wait until `leave` is called.
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
   * Extends it to `ttl` milliseconds from now. False if it is not held any more. Rejects with a LeaseStoreError; it is then
   * still held until its deadline.
   */
  async renew(held: Hold, ttl: number, info?: string): Promise<boolean> {
    if (!held.checkHeld()) return false;
    const renewed = await held.during(() => this.#inOrderOf(held, () => this.#renew(held, ttl, info)));
    if (renewed !== 'late') return renewed;
    // No holder uses the extended lease, so others need not wait for its end.
    await held.freeExpired().catch(() => undefined);
    return false;
  }

  /**
   * Frees the key of a hold that has ended, or leaves the rest of its `minHold` to the store. True if this freed it. Frees no
   * later grant of the same owner. Rejects with a LeaseStoreError, or the store's permanent error.
   */
  end(hold: Hold): Promise<boolean> {
    // The owner of a lease is used once, unless it is stable. A renewal that reaches the store after such a release finds
    // nothing to extend, so the release need not wait for its answer.
    if (!this.stableOwners && hold.minHoldLeft === 0) {
      if (hold.background !== undefined) void this.#ending.add(hold.detach());
      return this.#ending.add(this.#end(hold));
    }
    const end = async (): Promise<boolean> => {
      await hold.detach();
      return this.#end(hold);
    };
    return this.#ending.add(this.#inOrderOf(hold, end, this.#timeLeft(hold)));
  }

  async #end(hold: Hold): Promise<boolean> {
    if (this.#grants?.hasLater(hold) === true) return false;
    const { name, owner, minHoldLeft, knownToken: token } = hold;
    try {
      if (minHoldLeft > 0) this.#grants?.keepTaken(name, minHoldLeft);
      const freed = await (minHoldLeft > 0
        ? this.#requests.keep(name, owner, minHoldLeft, token)
        : this.#requests.release(name, owner, token));
      this.#grants?.forget(hold);
      return freed;
    } catch (error) {
      const failure = storeFailure('release', name, error);
      hold.announceFailure('release', failure);
      throw failure;
    }
  }

  /** As {@link repeat} for the ends of these holds. */
  endAll(holds: readonly Hold[]): Promise<LockError | undefined> {
    // In real time: the manager's clock may stand still.
    const ahead = localNow() - this.schedule.now();
    return this.repeat(holds.map((hold) => ({ send: () => this.end(hold), endsAt: hold.expiresAt + ahead })));
  }

  /**
   * Sends the releases, a few at a time. One that fails is repeated, by the backoff, until its lease expires. Resolves to the
   * error of the first that failed to the end. `closing`: when it aborts, they are sent once more at once, and never again. With
   * it, pauses do not keep the process alive.
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

  /** Call after a hold was lost: no renewal follows. */
  lost(hold: Hold): void {
    this.#grants?.forget(hold);
    if (hold.background !== undefined) void this.stop(hold);
  }

  /** Makes the renewing thread stop, after the operations sent before. Later operations wait for that. */
  stop(held: Hold): Promise<void> {
    return this.#ending.add(this.#inOrderOf(held, () => held.detach(), this.#timeLeft(held)));
  }

  #inOrderOf<T>(held: Hold, operation: () => Promise<T>, patience?: number): Promise<T> {
    return this.inOrder(this.stableOwners ? held.name : held, operation, patience);
  }

  #timeLeft(held: Hold): number {
    return Math.max(0, held.expiresAt - this.schedule.now());
  }

  async #renew(held: Hold, ttl: number, info: string | undefined): Promise<boolean | 'late'> {
    if (!held.checkHeld()) return false;
    // A shorter time than is left counts from now on.
    held.plan(this.schedule.now() + ttl);
    return held.background?.renew(ttl, info) ?? this.#send(held, ttl, info);
  }

  /** `late`: extended, but the answer came too late to count. */
  async #send(held: Hold, ttl: number, info: string | undefined): Promise<boolean | 'late'> {
    const { schedule } = this;
    // The deadline counts from before the request.
    const until = schedule.now() + ttl;
    // A store that breaks the rule may shorten the lease although its answer is lost.
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
  /** When the lease expires, in real time. */
  readonly endsAt: number;
}

interface FailedRelease extends Release {
  readonly error: LockError;
}

/** Resolves to the releases that failed. After the first failure, expired leases are skipped. */
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
