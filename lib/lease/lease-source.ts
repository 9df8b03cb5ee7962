import { threadId } from 'node:worker_threads';
import { leaseChannels } from '../common/diagnostics.js';
import { localNow, setClock, timerNow } from '../common/elapsed.js';
import { quotedKeys, keyName, type LockError } from '../common/errors.js';
import { pause } from '../common/timers.js';
import { PendingOperations } from '../common/pending-operations.js';
import { randomName } from '../common/random-name.js';
import type { LockMode } from '../common/types.js';
import { addCount, COUNT, type ThreadCounts } from '../engine/contract/counts.js';
import { closeCounts, openCounts } from '../engine/open-counts.js';
import { engineClock } from '../engine/select.js';
import { LeaseContention, type KnownHolders } from './contention.js';
import { BackgroundStore } from './renewing-thread.js';
import {
  cannotReopen,
  cannotShare,
  isPermanent,
  LeaseStoreError,
  managerClosed,
  storeFailure,
} from './contract/errors.js';
import {
  inspectingNow,
  MAX_TTL,
  releasedOwner,
  sourceOf,
  type LeaseState,
  type LeaseStore,
} from './contract/lease-store.js';
import type { Backoff, LeaseTerms, ManagerSettings } from './contract/options.js';
import { canShare, READERS, type SharedLeaseStore } from './contract/shared.js';
import { allSlots, fromAny, slotKey, slotKeys } from './contract/slots.js';
import { Heartbeat, type KnownGrants } from './heartbeat.js';
import { type Grant, Hold } from './hold.js';
import { Schedule } from './schedule.js';
import { type KeyGrant, type Requester, StoreRequests } from './store-requests.js';
import { Acquisition, type Answer } from './acquisition.js';
import { wakeNext, WaitingLines } from './waiting-lines.js';

/**
 * Milliseconds between two checks whether all leases have ended. Without polling, each release would have to
 * send a notification, which would make releases slower.
 */
const DRAIN_POLL = 5;
/**
 * The minimum number of milliseconds for which an exclusive waiter puts off new readers. The time is at least
 * twice the longest pause between two attempts, so that readers stay put off from one attempt to the next. With
 * short pauses, the minimum is twice `PUT_OFF_EVERY` of the acquisition, which repeats the request that often. A
 * longer minimum would keep readers from a free key for longer after the waiter has given up.
 */
const PUT_OFF_FOR = 1000;
/**
 * If there are more holds than this, neither a timeout error nor a profile says whether this manager holds the
 * key, because each timeout would have to search all holds.
 */
const FEW_HOLDS = 1000;

/**
 * Acquires, shares, replaces and frees the leases that one manager has in its store.
 *
 * Owners are called stable if the manager has a `holder` or is `reentrant`: all its leases then have the same
 * owner. The store cannot distinguish two leases of one owner, so the manager has at most one hold of each
 * key. It also sends the operations on one key one after the other, because otherwise the store could execute
 * a later operation first.
 */
export class LeaseSource implements KnownGrants {
  readonly schedule: Schedule<Hold>;
  readonly backoff: Backoff;
  readonly stableOwners: boolean;
  readonly counts: ThreadCounts;
  readonly contention: LeaseContention;
  /**
   * The timeouts of the waiting acquisitions, and the pauses between attempts. An acquisition is in this schedule
   * from the start of its wait until it settles: {@link close} relies on this. The schedule keeps the process
   * alive. It uses real time, even if the manager has a `clock`.
   */
  readonly waiting = new Schedule(undefined, true);
  readonly lines: WaitingLines;
  readonly #requests: StoreRequests;
  readonly #heartbeat: Heartbeat;
  readonly #sharing: SharedLeaseStore | undefined;
  readonly #inspectNow: ((key: string) => LeaseState | undefined) | undefined;
  /**
   * Renews leases while the event loop is blocked. Undefined if no other thread can open the store, or if the
   * manager has a `clock`.
   */
  readonly #background: BackgroundStore | undefined;
  readonly #reentrant: boolean;
  /** The owner of all leases; undefined if each acquisition has a separate owner. */
  readonly #owner: string | undefined;
  /** A random name that makes the owners of this manager unique. */
  readonly #name = randomName();
  #owners = 0;
  #isClosed = false;
  /**
   * With stable owners only: the last hold of each store key. A hold is removed when it is lost or its key is
   * freed.
   */
  readonly #latest = new Map<string, Hold>();
  /** If the manager is reentrant: the last shared hold of each key. Entries are removed as in `#latest`. */
  readonly #readers = new Map<string, Hold>();
  /** The last hold of a slot that this manager was granted. */
  #lastSlot: Hold | undefined;
  /** Attempts and releases that have no answer yet, and background renewals that are being stopped. */
  readonly #operations = new PendingOperations();
  /** Releases of keys that the store may have granted in an answer that was lost. */
  readonly #givingBack = new PendingOperations();
  /** Aborts when the manager closes. The releases in `#givingBack` are then sent only once more. */
  readonly #closing = new AbortController();
  /** The first error from releasing a grant that arrived after the manager was closed. */
  #lateFailure: unknown;

  constructor(store: LeaseStore, settings: ManagerSettings) {
    const clock = engineClock();
    if (clock) setClock(clock);
    this.counts = openCounts('lease', settings.name, this);
    this.contention = new LeaseContention(this.counts, settings.name, store);
    this.schedule = new Schedule(settings.clock, false, localNow);
    this.backoff = settings.backoff;
    this.#reentrant = settings.reentrant;
    this.#owner = settings.holder ?? (settings.reentrant ? this.#name : undefined);
    this.stableOwners = this.#owner !== undefined;
    const source = settings.clock === undefined ? sourceOf(store) : undefined;
    this.#background = source && new BackgroundStore(source, settings.backoff);
    this.#requests = new StoreRequests(store, (key) => wakeNext(store, key), !this.stableOwners);
    this.#heartbeat = new Heartbeat(this.#requests, this.schedule, this.backoff, this, this.#operations);
    this.#inspectNow = inspectingNow(store);
    this.#sharing = canShare(store) ? store : undefined;
    this.lines = new WaitingLines(this, store);
  }

  /**
   * Creates the requester of an acquisition. Unless owners are stable, each requester has a separate owner. In
   * shared mode, each requester has a separate reader.
   */
  newRequester(since: number, mode: LockMode): Requester {
    const stable = mode === 'shared' ? undefined : this.#owner;
    const owner = stable ?? `${this.#name}:${this.#owners++}`;
    return { owner, since, unsure: undefined, isSpent: false, isCancelled: false };
  }

  /**
   * Makes one attempt to acquire all keys or none. If the keys have a limit, there is only one key: this
   * method tries its slots until one of them is granted. `slots`: the slots to try, in this order; default:
   * all. Rejects with a LeaseStoreError, or with the store's permanent error.
   */
  tryAll(
    keys: readonly string[],
    requester: Requester,
    terms: LeaseTerms,
    slots?: readonly number[],
  ): Promise<Answer> {
    if (terms.limit > 1) {
      const key = keys[0]!;
      return this.#trySlots(key, requester, terms, slots ?? this.slotsOf(key, terms.limit));
    }
    // Without `reentrant`, no lease is joined, and the store distinguishes all readers.
    const isOrdered = terms.mode === 'shared' ? this.#reentrant : this.stableOwners;
    return isOrdered ? this.#tryStable(keys, requester, terms) : this.#ask(keys, requester, terms);
  }

  /**
   * All slots of the key, in the order in which an attempt tries them. The first one is the slot that this
   * manager was granted last, if that hold was of this key and has ended: the store may have reserved the slot
   * for this manager. Otherwise, the first slot is random.
   */
  slotsOf(key: string, limit: number): readonly number[] {
    const last = this.#lastSlot;
    const isFree = last?.key === key && last.ended;
    return fromAny(allSlots(limit), isFree ? last.terms.slot : undefined);
  }

  /**
   * Releases these holds of the requester, in reverse order. Also releases the keys that the store may have
   * granted to the requester in an answer that was lost.
   */
  giveBack(requester: Requester, terms: LeaseTerms, holds: readonly Hold[] = []): void {
    for (let i = holds.length - 1; i >= 0; i--) void this.#leave(holds[i]!);
    const { owner, unsure } = requester;
    requester.unsure = undefined;
    if (unsure !== undefined) this.#giveBackLater([...unsure], owner, terms);
  }

  /**
   * Whether a new acquisition of the key must wait behind another acquisition. False if the new acquisition
   * can share a lease of the key.
   */
  isAwaited(key: string, mode: LockMode): boolean {
    return this.lines.isAwaited(key) && this.#shared(key, mode) === undefined;
  }

  /**
   * Puts off new readers of the key, so that an exclusive waiter does not starve. Nothing waits for the answer,
   * and an error does not matter, because the waiter continues to poll.
   */
  putOffReaders(key: string): void {
    if (this.#sharing === undefined) return;
    const sharing = this.#sharing;
    const time = Math.min(Math.max(PUT_OFF_FOR, Math.ceil(2 * this.backoff.max)), MAX_TTL);
    const putOff = async (): Promise<unknown> => sharing.putOffReaders(key, time);
    void putOff().catch(() => undefined);
  }

  /**
   * Returns a text that says why the key was refused. The text names the holder if no request is needed to
   * find it. `isNamed`: true if the text must name the key, because the acquisition has other keys.
   */
  whyRefused(key: string, { limit, mode }: LeaseTerms, isNamed: boolean): string {
    const named = isNamed ? quotedKeys([key]) : 'it';
    const putOff = 'new readers are put off for an exclusive acquisition';
    const isShared = mode === 'shared';
    const single = isShared ? `${named} is held exclusively, or ${putOff}` : `${named} is held`;
    const refused = limit > 1 ? `all ${limit} slots are held` : single;
    try {
      const own = this.#holdsOf(key, limit);
      if (limit > 1)
        return own.length === 0 ? refused : `${refused}, ${own.length} of them by this LeaseManager`;
      const holder = own[0] ?? this.#inspectNow?.(key);
      if (holder === undefined) return refused;
      const { owner } = holder;
      const time = `for ${Math.ceil(holder.remaining)} ms`;
      const releasedBy = releasedOwner(owner);
      if (releasedBy !== undefined)
        return `${named} is kept ${time} after a release by ${keyName(releasedBy)}`;
      const left = `${time} unless it is renewed`;
      if (owner.startsWith(READERS)) {
        const readers = `${named} is held in shared mode${own.length === 0 ? '' : ', also by this LeaseManager'}`;
        return isShared ? `${readers}, and ${putOff}` : `${readers}, ${left}`;
      }
      const by = own.length === 0 ? keyName(owner) : `this LeaseManager as ${keyName(owner)}`;
      return `${named} is held by ${by}, ${left}`;
    } catch {
      // The clock that the caller provides has thrown an error. The timeout error does not report it.
      return refused;
    }
  }

  /**
   * The holders of the key, as far as they are known without a request. Throws the error of the caller's
   * clock.
   */
  holdersOf(key: string, limit: number): KnownHolders {
    const own = this.#holdsOf(key, limit);
    const ownerOf = (name: string): string | undefined =>
      (own.find((hold) => hold.name === name) ?? this.#inspectNow?.(name))?.owner;
    return {
      holders: own.length === 0 ? [] : [threadId],
      owners: slotKeys(key, limit).flatMap((name) => ownerOf(name) ?? []),
    };
  }

  /** This manager's holds of the key. Empty if the search would take too long. */
  #holdsOf(key: string, limit: number): readonly Hold[] {
    const names = new Set(slotKeys(key, limit));
    const holds = this.schedule.size > FEW_HOLDS ? [] : this.schedule.entries();
    return holds.filter((hold) => names.has(hold.name) && hold.checkHeld());
  }

  /**
   * Throws if the terms require background renewal, but no other thread can open the store or the manager has
   * a `clock`. Throws if the mode is shared, but the store cannot share keys.
   */
  checkTerms({ background, mode }: LeaseTerms): void {
    if (mode === 'shared' && this.#sharing === undefined) throw cannotShare();
    if (background && this.#background === undefined) throw cannotReopen();
  }

  hasLater(hold: Hold): boolean {
    if (hold.reader !== undefined) return false;
    const latest = this.#latest.get(hold.name);
    return latest !== undefined && latest !== hold;
  }

  /** From now on, refuses all attempts, and releases all grants that still arrive. */
  refuse(): void {
    this.#isClosed = true;
    closeCounts(this.counts, this);
  }

  /**
   * Rejects the waiting acquisitions. Then waits until no lease is held any more, or until the signal of
   * `draining` aborts; aborts that signal after the wait. Then marks all leases as lost, releases them, and
   * releases all grants that arrive later. Rejects with the error of the first release that did not succeed
   * before its lease expired.
   */
  async close(draining: AbortController): Promise<void> {
    for (const entry of this.waiting.entries()) {
      if (entry instanceof Acquisition) entry.fail(managerClosed());
    }
    const { signal } = draining;
    while (!signal.aborted && this.schedule.size > 0) await pause(DRAIN_POLL, signal);
    draining.abort();
    const holds = this.schedule.entries();
    for (const hold of holds) hold.lose('its manager was closed');
    const failed = await this.#heartbeat.endAll(holds);
    await this.#operations.settled();
    this.#closing.abort();
    await this.#givingBack.settled();
    this.#background?.close();
    const failure = failed ?? this.#lateFailure;
    if (failure !== undefined) throw failure as Error;
  }

  /**
   * The hold of the key that new acquisitions with this mode must share; undefined if there is none. An
   * exclusive acquisition cannot share a shared hold.
   */
  #shared(key: string, mode: LockMode): Hold | undefined {
    if (!this.#reentrant) return undefined;
    const hold = this.#latest.get(key);
    if (hold?.checkHeld() && hold.users > 0 && hold.terms.limit === 1) return hold;
    const shared = mode === 'shared' ? this.#readers.get(key) : undefined;
    return shared?.checkHeld() && shared.users > 0 ? shared : undefined;
  }

  /**
   * With stable owners: whether this manager holds this store key, or must still refuse it because of a `minHold`.
   * The store would grant such a key to the same owner again.
   */
  #isOwn(name: string): boolean {
    return this.#latest.get(name)?.checkHeld() === true || this.#isKept(name);
  }

  /**
   * With stable owners: whether the key's last lease was released before its `minHold` had passed, and the store has
   * not confirmed the release. Once the store has executed the release, it refuses the key by itself.
   */
  #isKept(name: string): boolean {
    const last = this.#latest.get(name);
    return last?.isReleased === true && last.minHoldLeft > 0;
  }

  /**
   * With stable owners: whether this manager must refuse an attempt for a key without a limit, although the
   * store would grant the key. Usually a new lease may replace the manager's own lease of the key. But in a
   * reentrant manager, a new lease must not replace a lease that was acquired with a limit. In any case, the
   * `minHold` of the last lease must have passed.
   */
  #isTaken(name: string): boolean {
    const limit = this.#latest.get(name)?.terms.limit ?? 1;
    return this.#reentrant && limit > 1 ? this.#isOwn(name) : this.#isKept(name);
  }

  forget(hold: Hold): void {
    const holds = hold.reader === undefined ? this.#latest : this.#readers;
    if (holds.get(hold.name) === hold) holds.delete(hold.name);
  }

  /**
   * With stable owners: marks the last hold of the key as lost, because the store has granted the key to the
   * same owner again.
   */
  #replaced(name: string): void {
    this.#latest.get(name)?.lose('this same holder has taken it again');
  }

  /**
   * Tries one slot after the other. If the store fails for one slot, the next slot may still be granted. For
   * example, the key of the first slot may contain a value of another program.
   */
  async #trySlots(
    key: string,
    requester: Requester,
    terms: LeaseTerms,
    slots: readonly number[],
  ): Promise<Answer> {
    let failure: unknown;
    for (const slot of slots) {
      const name = slotKey(key, slot);
      try {
        const answer = await this.#inOrder(name, async () => {
          if (requester.isCancelled || this.#isOwn(name)) return undefined;
          return this.#ask([key], requester, { ...terms, slot });
        });
        if (answer !== undefined && !('refused' in answer)) {
          this.#lastSlot = answer[0];
          return answer;
        }
      } catch (error) {
        // After a second failure the store is probably unreachable, and each further slot could take the
        // whole time limit of a request.
        if (failure !== undefined || isPermanent(error)) throw error;
        failure = error;
      }
    }
    if (failure !== undefined) throw failure as Error;
    return { refused: key };
  }

  /**
   * Makes one attempt with a stable owner. Starts again if a shared lease that the attempt has joined is lost
   * before the request is sent.
   */
  async #tryStable(keys: readonly string[], requester: Requester, terms: LeaseTerms): Promise<Answer> {
    for (;;) {
      const answer = await this.#tryInOrder(keys, requester, terms);
      if (answer !== undefined) return answer;
    }
  }

  /**
   * Joins the leases that this owner already has, if they can be shared. Then requests the other keys from
   * the store, after earlier operations on these keys have ended. Renewals of the joined leases do not wait
   * for this request. Undefined if a joined lease was lost before the request was sent.
   */
  async #tryInOrder(
    keys: readonly string[],
    requester: Requester,
    terms: LeaseTerms,
  ): Promise<Answer | undefined> {
    const joined: Hold[] = [];
    const others = new Set(keys);
    const leaves: (() => void)[] = [];
    const joins = (key: string): boolean => {
      const hold = this.#shared(key, terms.mode);
      if (hold === undefined) return false;
      hold.join();
      joined.push(hold);
      return others.delete(key);
    };
    try {
      // All attempts take the keys in the same order, so that they cannot wait for each other in a cycle.
      for (const key of [...keys].sort()) {
        if (joins(key)) continue;
        const { turn, leave } = this.#heartbeat.enter(key);
        leaves.push(leave);
        if (turn === undefined) continue;
        await turn;
        if (joins(key)) leave();
      }
      if (joined.some((hold) => !hold.checkHeld())) return undefined;
      if (others.size === 0) return joined.splice(0);
      const asked = keys.filter((key) => others.has(key));
      const taken = terms.mode === 'shared' ? undefined : asked.find((key) => this.#isTaken(key));
      if (taken !== undefined) return { refused: taken };
      const answer = await this.#ask(asked, requester, terms);
      return 'refused' in answer ? answer : [...joined.splice(0), ...answer];
    } finally {
      for (const leave of leaves) leave();
      for (const hold of joined) void this.#leave(hold);
    }
  }

  /** Gives back a hold. If that fails, the release is repeated later. Never rejects. */
  async #leave(hold: Hold): Promise<void> {
    try {
      await hold.giveBack();
    } catch {
      this.#giveBackLater([hold.name], hold.reader ?? hold.owner, hold.terms);
    }
  }

  /**
   * Requests the keys from the store. The request is sent immediately, unless background renewals must be
   * started or stopped first.
   */
  #ask(keys: readonly string[], requester: Requester, terms: LeaseTerms): Promise<Answer> {
    // The manager may have been closed while the attempt waited for an earlier operation.
    if (this.#isClosed) return Promise.reject(managerClosed());
    return this.#operations.add(this.#askNow(keys, requester, terms));
  }

  async #askNow(keys: readonly string[], requester: Requester, terms: LeaseTerms): Promise<Answer> {
    const names = keys.map((key) => slotKey(key, terms.slot));
    if (terms.background) {
      await this.#background!.ready().catch((error: unknown) => {
        throw storeFailure('renew in the background', names, error);
      });
    }
    const { ttl, mode } = terms;
    const isStable = mode === 'exclusive' && this.stableOwners;
    for (const name of isStable ? names : []) {
      // The store cannot distinguish the new lease of the key from the same owner's previous one. So if the
      // renewing thread still renews the previous lease, it must stop before the new lease is requested.
      const latest = this.#latest.get(name);
      if (latest?.background !== undefined) await latest.takeOver();
    }
    const { owner } = requester;
    const at = this.schedule.now();
    const replaced = (name: string): void => this.#replaced(name);
    let answer: readonly KeyGrant[] | number;
    try {
      answer = await this.#requests.tryAcquireAll(names, requester, terms, replaced);
    } catch (error) {
      for (const name of isStable ? names : []) {
        if (requester.unsure?.has(name) === true) this.#latest.get(name)?.mayBeReplaced();
      }
      const failure = storeFailure('acquire', keys, error);
      for (const key of keys) this.#announceUnheldFailure('acquire', key, owner, failure);
      throw failure;
    }
    if (typeof answer === 'number') {
      if (this.#isClosed) throw managerClosed();
      return { refused: keys[answer]! };
    }
    if (isStable) names.forEach(replaced);
    // The TTL counts from the time before the request was sent.
    if (this.#isClosed || this.schedule.now() - at >= ttl) {
      await this.#giveBackLate(names, owner, mode, answer);
      if (this.#isClosed) throw managerClosed();
      throw new LeaseStoreError(
        `the lease store granted a lease of ${ttl} ms when that time was already over; the grant was given back`,
      );
    }
    const grants = answer.map(({ token, abandoned, group }, i): Grant => {
      const reader = group === undefined ? undefined : owner;
      const name = names[i]!;
      return { key: keys[i]!, name, owner: group ?? owner, reader, terms, token, abandoned, since: at };
    });
    return this.#hold(grants, timerNow() - requester.since);
  }

  /** Creates the holds of the granted keys. `waited`: how long the acquisition took, in milliseconds. */
  #hold(grants: readonly Grant[], waited: number): readonly Hold[] {
    const holds = grants.map((grant) => new Hold(this.#heartbeat, grant));
    for (const hold of holds) {
      if (hold.terms.background) this.#background!.add(hold);
      hold.join();
      if (hold.hasStableOwner) this.#latest.set(hold.name, hold);
      else if (this.#reentrant) this.#readers.set(hold.name, hold);
      hold.plan();
      hold.announceGrant(waited);
    }
    return holds;
  }

  /**
   * With stable owners, runs the operation after earlier operations on this store key. With other owners,
   * runs the operation immediately.
   */
  #inOrder<T>(name: string, operation: () => Promise<T>): Promise<T> {
    return this.stableOwners ? this.#heartbeat.inOrder(name, operation) : operation();
  }

  /**
   * Releases keys after failed attempts, because the store may have granted the keys in answers that were
   * lost. If a release fails, it is repeated after growing pauses until the lease would have expired. When
   * the manager closes, the release is sent only once more. The pauses do not keep the process alive.
   */
  #giveBackLater(keys: readonly string[], owner: string, { ttl, mode }: LeaseTerms): void {
    const endsAt = localNow() + ttl;
    const releases = keys.map((key) => ({ send: () => this.#releaseUnheld(key, owner, mode), endsAt }));
    void this.#givingBack.add(this.#heartbeat.repeat(releases, this.#closing.signal));
  }

  /**
   * Releases a key that the store may have granted to a failed attempt, unless the same owner holds the key
   * from another attempt.
   */
  #releaseUnheld(key: string, owner: string, mode: LockMode): Promise<boolean> {
    if (mode === 'shared') return this.#giveBackUnheld(key, owner, mode);
    return this.#inOrder(key, async () => {
      return this.#latest.get(key) === undefined && (await this.#giveBackUnheld(key, owner, mode));
    });
  }

  /** Ends a grant that has no hold, and reports a failure. Arguments as for `StoreRequests.giveBack`. */
  #giveBackUnheld(key: string, owner: string, mode: LockMode, grant?: KeyGrant): Promise<boolean> {
    const released = this.#requests.giveBack(key, owner, mode, grant).catch((error: unknown) => {
      const failure = storeFailure('release', key, error);
      this.#announceUnheldFailure('release', key, owner, failure);
      throw failure;
    });
    return this.#operations.add(released);
  }

  async #giveBackLate(
    names: readonly string[],
    owner: string,
    mode: LockMode,
    grants: readonly KeyGrant[],
  ): Promise<void> {
    const granted = names.map((name, i) => ({ name, grant: grants[i]! })).reverse();
    const given = granted.map(({ name, grant }) => this.#giveBackUnheld(name, owner, mode, grant));
    for (const result of await Promise.allSettled(given)) {
      if (result.status === 'rejected' && this.#isClosed) this.#lateFailure ??= result.reason;
    }
  }

  /** Publishes to `stripelock:lease:failed`, about a key that this manager does not hold. */
  #announceUnheldFailure(
    operation: 'acquire' | 'release',
    key: string,
    owner: string,
    error: LockError,
  ): void {
    addCount(this.counts, COUNT.failures);
    if (!leaseChannels.failed.hasSubscribers) return;
    const nothing = { token: undefined, remaining: undefined };
    leaseChannels.failed.publish({ key, operation, error, holder: owner, threadId, ...nothing });
  }
}
