import { isPermanent } from './contract/errors.js';
import { reportsReleases, type LeaseStore } from './contract/lease-store.js';
import { slotKeys } from './contract/slots.js';
import type { Due } from './schedule.js';
import type { Acquisition, Answers } from './acquisition.js';
import type { LeaseSource } from './lease-source.js';

/** If no more than this many milliseconds are left before a timeout, no further attempt is made. */
const SHORTEST_CHANCE = 10;

/**
 * For each store, the `WaitingLines` of this thread's managers, in the order in which the managers take
 * turns.
 */
const managersOf = new WeakMap<LeaseStore, Set<WaitingLines>>();

/**
 * Call when a manager of this thread has released the store key `name`. Wakes a waiter of the next manager
 * that has a waiter for this key. Does nothing if the store reports releases itself.
 */
export function wakeNext(store: LeaseStore, name: string): void {
  const managers = managersOf.get(store);
  if (managers === undefined) return;
  for (const manager of managers) {
    if (!manager.wakeNext(name)) continue;
    managers.delete(manager);
    managers.add(manager);
    return;
  }
}

/**
 * The waiting acquisitions (waiters) of one manager. Each store key has a queue of waiters, ordered by
 * arrival. Names in the code use "line" for such a queue. Only the first waiter in a queue polls the store,
 * with growing pauses. So thousands of waiters cost the store no more than a single waiter. After a grant,
 * the next waiter becomes the first.
 *
 * An acquisition of a key with a limit waits in the queues of all slots. Only the first waiter in the queue
 * of a slot may acquire this slot. All waiters for the same key with the same limit form a {@link
 * WaiterGroup}. The group is in all these queues, like a single waiter.
 */
export class WaitingLines {
  readonly grants: LeaseSource;
  readonly store: LeaseStore;
  /**
   * For each store key, the groups in its queue. The waiters of a group are ordered by arrival, so the first
   * waiter in a queue is the first waiter of one of these groups. A new waiter only joins its group, so
   * adding it costs the same for every limit.
   */
  readonly #lines = new Map<string, readonly WaiterGroup[]>();
  /** The number of waiters that have joined a queue so far. */
  #arrivals = 0;

  constructor(grants: LeaseSource, store: LeaseStore) {
    this.grants = grants;
    this.store = store;
  }

  /**
   * Adds a waiter to the queue of the key. `wasRefused`: true if the store has just refused this waiter; its
   * first attempt is then made after a pause.
   */
  join(key: string, waiter: Acquisition, wasRefused: boolean): void {
    waiter.arrival = ++this.#arrivals;
    const found = this.#find(key, waiter.limit);
    if (found) {
      found.waiters.add(waiter);
      return;
    }
    if (this.#lines.size === 0) this.#enlist();
    const group = new WaiterGroup(this, key, waiter);
    for (const name of group.names) this.#lines.set(name, [...this.#at(name), group]);
    if (wasRefused) group.pause();
    else group.run();
  }

  /**
   * Removes a waiter from the queue of the key. `mayBeFree`: true if the key may be free for the next waiter,
   * because `waiter` leaves without the key, or with only one of its slots.
   */
  leave(key: string, waiter: Acquisition, mayBeFree: boolean): void {
    this.#find(key, waiter.limit)?.leave(waiter, mayBeFree);
  }

  /** Whether an acquisition waits for this store key. */
  isAwaited(name: string): boolean {
    return this.#at(name).some((group) => group.isAwaited);
  }

  /**
   * The store's answers to the group with this key and limit. If that group has not sent a request yet,
   * returns the store's answers to the first group in the queue of the key.
   */
  answersFor(key: string, limit: number): Answers | undefined {
    const group = this.#find(key, limit);
    return group?.hasAsked === true ? group : this.first(key);
  }

  /**
   * Wakes the first group in the queue of this store key, after a release. False if no acquisition waits for
   * the key.
   */
  wakeNext(name: string): boolean {
    const group = this.first(name);
    group?.wakeNext(name);
    return group !== undefined;
  }

  /**
   * The group that contains the first waiter in the queue of this store key; undefined if no acquisition
   * waits for the key.
   */
  first(name: string): WaiterGroup | undefined {
    const groups = this.#at(name);
    if (groups.length < 2) return groups[0];
    return groups.reduce((first, group) => (group.arrival < first.arrival ? group : first));
  }

  /** The store keys for which this group is the first in the queue, ahead of another group. */
  ledBy(group: WaiterGroup): readonly string[] {
    return group.names.filter((name) => this.#at(name).length > 1 && this.first(name) === group);
  }

  /** Removes a group without waiters from all its queues. */
  drop(group: WaiterGroup): void {
    for (const name of group.names) {
      const left = this.#at(name).filter((other) => other !== group);
      if (left.length > 0) this.#lines.set(name, left);
      else this.#lines.delete(name);
    }
    if (this.#lines.size === 0) managersOf.get(this.store)?.delete(this);
  }

  #enlist(): void {
    if (reportsReleases(this.store)) return;
    let managers = managersOf.get(this.store);
    if (managers === undefined) managersOf.set(this.store, (managers = new Set()));
    managers.add(this);
  }

  #find(key: string, limit: number): WaiterGroup | undefined {
    return this.#at(key).find((group) => group.key === key && group.limit === limit);
  }

  #at(name: string): readonly WaiterGroup[] {
    return this.#lines.get(name) ?? [];
  }
}

/**
 * The acquisitions that wait for one key with one limit, ordered by arrival. The first of them, the head,
 * makes the attempts.
 */
class WaiterGroup implements Due, Answers {
  deadline = Infinity;
  place = -1;
  failure: unknown;
  answeredAt: number | undefined;
  silentSince: number | undefined;
  readonly waiters = new Set<Acquisition>();
  readonly key: string;
  readonly limit: number;
  /** The store keys of the slots. Without a limit, there is one store key. */
  readonly names: readonly string[];
  readonly #lines: WaitingLines;
  readonly #grants: LeaseSource;
  /**
   * The number of the current attempt while the group waits for its answer; otherwise 0. With 0, an attempt
   * of an earlier head may still be in progress.
   */
  #asking = 0;
  #attempts = 0;
  /** The slots that the last attempt has tried or still tries, in this order. */
  #trying: readonly number[] = [];
  /** The length of the next pause in milliseconds, before the jitter shortens it. */
  #step: number;
  /**
   * The slots that were released while the group waited for an answer. The store may have sent that answer
   * before the release, so these slots must be tried again. Undefined if there are no such slots.
   */
  #woken: Set<number> | undefined;
  /**
   * The start time of the current series of wake-ups that releases in this thread caused; see
   * {@link wakeNext}. Undefined if there is no such series.
   */
  #wokenSince: number | undefined;
  #stopListening: readonly (() => void)[] | undefined;
  #hasPaused = false;

  constructor(lines: WaitingLines, key: string, first: Acquisition) {
    this.#lines = lines;
    this.#grants = lines.grants;
    this.key = key;
    this.limit = first.limit;
    this.names = slotKeys(key, first.limit);
    this.#step = this.#grants.backoff.initial;
    this.waiters.add(first);
  }

  /**
   * Whether an acquisition waits in this group. False while the group's only waiter makes its first attempt.
   */
  get isAwaited(): boolean {
    return this.#hasPaused || this.waiters.size > 1;
  }

  get hasAsked(): boolean {
    return this.#attempts > 0;
  }

  /** The {@link Acquisition.arrival} of the group's first waiter; Infinity without waiters. */
  get arrival(): number {
    return this.#head?.arrival ?? Infinity;
  }

  get #head(): Acquisition | undefined {
    return this.waiters.values().next().value;
  }

  /** Called by the schedule when a pause ends. */
  run(): void {
    this.#ask();
  }

  /**
   * Starts an attempt of the head. The attempt tries only slots for which this group is the first in the
   * queue. `slots`: the slots that may be free; undefined for all.
   */
  #ask(slots?: readonly number[]): void {
    const head = this.#head;
    if (head === undefined) return;
    const asked = slots ?? this.#grants.slotsOf(this.key, this.limit);
    this.#trying = asked.filter((slot) => this.#lines.first(this.names[slot]!) === this);
    this.#woken = undefined;
    if (this.#trying.length === 0) {
      this.pause();
      return;
    }
    const attempt = ++this.#attempts;
    this.#asking = attempt;
    this.silentSince ??= this.#grants.waiting.now();
    head.attempt(this.#trying).then(
      (granted) => this.#answered(attempt, head, granted, undefined),
      (error: unknown) => this.#answered(attempt, head, false, error),
    );
  }

  leave(waiter: Acquisition, mayBeFree: boolean): void {
    const head = this.#head;
    const led = waiter === head ? this.#lines.ledBy(this) : [];
    if (!this.waiters.delete(waiter)) return;
    if (this.waiters.size === 0) {
      this.#end();
    } else if (waiter === head && this.#asking !== 0) {
      // The head was granted, or has stopped waiting. So the group no longer waits for the answer to its
      // attempt.
      this.#asking = 0;
      if (mayBeFree) this.wake(this.#leftBy(waiter));
      else this.#pauseUnlessWoken();
    } else if (waiter === head) {
      this.#grants.waiting.set(this, Math.min(this.deadline, this.#lastChance()));
    }
    for (const name of led) this.#lines.first(name)?.wakeFor(name);
  }

  /**
   * The slots that may be free after the head has left. If the head was granted a slot, these are the slots
   * that its attempt did not try, and the slots that were released since the attempt began. If the head was
   * granted no slot, the result is undefined, which means all slots.
   */
  #leftBy({ slot }: Acquisition): readonly number[] | undefined {
    if (slot === undefined) return undefined;
    const untried = this.#trying.slice(this.#trying.indexOf(slot) + 1);
    return [...new Set([...untried, ...(this.#woken ?? [])])];
  }

  /** Call when the slot whose store key is `name` may be free. */
  wakeFor(name: string): void {
    this.wake([this.names.indexOf(name)]);
  }

  /**
   * Call when these slots may be free; without `slots`, when any slot may be free. Starts an attempt. If the
   * group waits for an answer, records the slots for the next attempt instead.
   */
  wake(slots?: readonly number[]): void {
    if (this.#asking !== 0) {
      const woken = (this.#woken ??= new Set());
      for (const slot of slots ?? this.names.keys()) woken.add(slot);
      return;
    }
    this.#grants.waiting.clear(this);
    this.#step = this.#grants.backoff.initial;
    this.#ask(slots);
  }

  /**
   * Call when a lease of the key was released in this thread. Waiters in other threads and processes are not
   * notified of this release. So once such releases have kept waking this group for a period of
   * `backoff.max` milliseconds, the group makes one pause of that length. During the pause, other threads
   * and processes can acquire the key.
   */
  wakeNext(name: string): void {
    const { backoff, waiting } = this.#grants;
    const now = waiting.now();
    this.#wokenSince ??= now;
    if (now - this.#wokenSince < backoff.max) {
      this.wakeFor(name);
      return;
    }
    this.#wokenSince = undefined;
    this.#step = backoff.max;
    if (this.#asking === 0) this.pause();
  }

  /**
   * Plans the next attempt after a pause. If the head's timeout would expire during the pause, the pause is
   * shortened, so that there is time for one more attempt.
   */
  pause(): void {
    const { store } = this.#lines;
    const { backoff, waiting } = this.#grants;
    this.#hasPaused = true;
    if (reportsReleases(store)) {
      this.#stopListening ??= this.names.map((name) => {
        return store.onRelease(name, () => this.#lines.first(name)?.wakeFor(name));
      });
    }
    const length = this.#step * (1 - backoff.jitter * Math.random());
    this.#step = Math.min(this.#step * 2, backoff.max);
    waiting.set(this, Math.min(waiting.now() + length, this.#lastChance()));
  }

  #pauseUnlessWoken(): void {
    if (this.#woken) this.wake([...this.#woken]);
    else this.pause();
  }

  #answered(attempt: number, asked: Acquisition, granted: boolean, failure: unknown): void {
    this.failure = failure;
    this.silentSince = undefined;
    if (failure === undefined) this.answeredAt = this.#grants.waiting.now();
    if (this.#asking === attempt) {
      this.#asking = 0;
      // A failed attempt gives back the keys that it may hold, which wakes the group. But the group must
      // pause, because otherwise it would send thousands of requests per second.
      if (failure === undefined) this.#pauseUnlessWoken();
      else this.pause();
    } else if (this.waiters.size > 0 && (isPermanent(failure) || (granted && this.#sharesWith(asked)))) {
      // This is the answer to an earlier head. A permanent failure also concerns the next waiter.
      this.wake();
    }
  }

  /**
   * Whether the store also grants the key to the next waiter after a grant to `granted`, because both are
   * readers, or because both have the same owner. Always false if the key has a limit.
   */
  #sharesWith(granted: Acquisition): boolean {
    const { isShared } = this.#head!;
    return this.limit === 1 && granted.isShared === isShared && (isShared || this.#grants.stableOwners);
  }

  /**
   * The latest time for another attempt before the head's timeout. This is `backoff.initial` milliseconds
   * before the timeout, or halfway to the timeout if that is later. If too little time is left for another
   * attempt, it is the timeout itself.
   */
  #lastChance(): number {
    const { endsAt } = this.#head!;
    const { backoff, waiting } = this.#grants;
    const left = endsAt - waiting.now();
    if (left > 2 * backoff.initial) return endsAt - backoff.initial;
    return left > SHORTEST_CHANCE ? endsAt - left / 2 : endsAt;
  }

  #end(): void {
    this.#grants.waiting.clear(this);
    for (const stop of this.#stopListening ?? []) stop();
    this.#asking = 0;
    this.#lines.drop(this);
  }
}
