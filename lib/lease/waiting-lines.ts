import { isPermanent } from './contract/errors.js';
import { reportsReleases, type LeaseStore } from './contract/lease-store.js';
import { allSlots, fromAny, slotKeys } from './contract/slots.js';
import type { Due } from './schedule.js';
import type { Acquisition, Answers } from './acquisition.js';
import type { LeaseSource } from './lease-source.js';

/** If fewer milliseconds than this are left before a timeout, no further attempt is made. */
const SHORTEST_CHANCE = 10;

/**
 * For each store, the waiting lines of this thread's managers, in the order in which the managers take turns.
 */
const managersOf = new WeakMap<LeaseStore, Set<WaitingLines>>();

/**
 * Call when a manager of this thread has released the key `name` of the store. Wakes a waiter of the next
 * manager that has a waiter for this key. Does nothing if the store reports releases itself.
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
 * The waiting acquisitions of one manager. Each key of the store has a line, ordered by arrival. Only the
 * first waiter in a line polls the store, with growing pauses. So thousands of waiters burden the store no
 * more than one. After a grant, the next waiter is the first.
 *
 * An acquisition of a key with a limit waits in the lines of all slots. Only the first waiter in the line of
 * a slot may take this slot. The waiters for one key with one limit form a {@link WaiterGroup}, which stands
 * in all these lines like a single waiter.
 */
export class WaitingLines {
  readonly grants: LeaseSource;
  readonly store: LeaseStore;
  /**
   * The groups that stand in the line of each key of the store. The waiters of a group are ordered by
   * arrival. So the first waiter in a line is the first waiter of one of its groups, and adding a waiter
   * costs the same for every limit.
   */
  readonly #lines = new Map<string, readonly WaiterGroup[]>();
  /** The number of waiters that have joined a line so far. */
  #arrivals = 0;

  constructor(grants: LeaseSource, store: LeaseStore) {
    this.grants = grants;
    this.store = store;
  }

  /**
   * Adds a waiter to the line of the key. `wasRefused`: the store has just refused this waiter, so its first
   * attempt follows only after a pause.
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
   * Removes a waiter from the line of the key. `mayBeFree`: the waiter leaves without the key, or with only
   * one of its slots, so the key may be free for the next waiter.
   */
  leave(key: string, waiter: Acquisition, mayBeFree: boolean): void {
    this.#find(key, waiter.limit)?.leave(waiter, mayBeFree);
  }

  /** Whether an acquisition waits for this key of the store. */
  isAwaited(name: string): boolean {
    return this.#at(name).some((group) => group.isAwaited);
  }

  /**
   * The store's answers to the group with this key and limit. If that group has not asked yet, the answers to
   * the first group in the line of the key.
   */
  answersFor(key: string, limit: number): Answers | undefined {
    const group = this.#find(key, limit);
    return group?.hasAsked === true ? group : this.first(key);
  }

  /**
   * Wakes the first group in the line of this key of the store, after a release. False if no acquisition
   * waits for the key.
   */
  wakeNext(name: string): boolean {
    const group = this.first(name);
    group?.wakeNext(name);
    return group !== undefined;
  }

  /**
   * The group to which the first waiter in the line of this key of the store belongs; undefined if no
   * acquisition waits for it.
   */
  first(name: string): WaiterGroup | undefined {
    const groups = this.#at(name);
    if (groups.length < 2) return groups[0];
    return groups.reduce((first, group) => (group.arrival < first.arrival ? group : first));
  }

  /** The keys of the store in whose lines this group is the first, ahead of another group. */
  sharedBy(group: WaiterGroup): readonly string[] {
    return group.names.filter((name) => this.#at(name).length > 1 && this.first(name) === group);
  }

  /** Removes a group that has no waiters any more from its lines. */
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
  /** The keys of the slots in the store. Without a limit, that is one key. */
  readonly names: readonly string[];
  readonly #lines: WaitingLines;
  readonly #grants: LeaseSource;
  /**
   * The number of the attempt for whose answer the group waits; 0 if it waits for none. An attempt of an
   * earlier head may still be in progress.
   */
  #asking = 0;
  #attempts = 0;
  /** The slots that the last attempt tries, in this order. */
  #trying: readonly number[] = [];
  /** The length of the next pause in milliseconds, before it is shortened by the jitter. */
  #step: number;
  /**
   * The slots that were released while an attempt had no answer. That answer may be older than the release.
   * Undefined if there are none.
   */
  #woken: Set<number> | undefined;
  /**
   * The start of the current series of wake-ups by releases in this thread; see {@link wakeNext}. Undefined
   * if there is none.
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

  /** Whether an acquisition waits in this group. False while its only waiter makes its first attempt. */
  get isAwaited(): boolean {
    return this.#hasPaused || this.waiters.size > 1;
  }

  get hasAsked(): boolean {
    return this.#attempts > 0;
  }

  /** The {@link Acquisition.arrival} of its first waiter; Infinity without waiters. */
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
   * Starts an attempt of the head. It tries only slots in whose lines this group is the first. `slots`: the
   * slots that may be free; undefined for all.
   */
  #ask(slots?: readonly number[]): void {
    const head = this.#head;
    if (head === undefined) return;
    const asked = slots ?? fromAny(allSlots(this.limit));
    this.#trying = asked.filter((slot) => this.#lines.first(this.names[slot]!) === this);
    this.#woken = undefined;
    if (this.#trying.length === 0) {
      this.pause();
      return;
    }
    const attempt = ++this.#attempts;
    this.#asking = attempt;
    this.silentSince ??= this.#grants.waiting.schedule.now();
    head.attempt(this.#trying).then(
      (granted) => this.#answered(attempt, granted, undefined),
      (error: unknown) => this.#answered(attempt, false, error),
    );
  }

  leave(waiter: Acquisition, mayBeFree: boolean): void {
    const head = this.#head;
    const shared = waiter === head ? this.#lines.sharedBy(this) : [];
    if (!this.waiters.delete(waiter)) return;
    if (this.waiters.size === 0) {
      this.#end();
    } else if (waiter === head && this.#asking !== 0) {
      // The head was granted, or has stopped waiting. So the other waiters need not wait for its answer.
      this.#asking = 0;
      if (mayBeFree) this.wake(this.#leftBy(waiter));
      else this.#pauseUnlessWoken();
    } else if (waiter === head) {
      this.#grants.waiting.schedule.set(this, Math.min(this.deadline, this.#lastChance()));
    }
    for (const name of shared) this.#lines.first(name)?.wakeFor(name);
  }

  /**
   * The slots that may be free after the head was granted one: those that it did not try, and those that were
   * released since its attempt began. Undefined means all slots: the head was granted none.
   */
  #leftBy({ slot }: Acquisition): readonly number[] | undefined {
    if (slot === undefined) return undefined;
    const untried = this.#trying.slice(this.#trying.indexOf(slot) + 1);
    return [...new Set([...untried, ...(this.#woken ?? [])])];
  }

  /** Call when the slot with this key in the store may be free. */
  wakeFor(name: string): void {
    this.wake([this.names.indexOf(name)]);
  }

  /**
   * Call when these slots may be free; without `slots`, when any slot may be. Starts an attempt, or remembers
   * the slots if an attempt has no answer yet.
   */
  wake(slots?: readonly number[]): void {
    if (this.#asking !== 0) {
      const woken = (this.#woken ??= new Set());
      for (const slot of slots ?? this.names.keys()) woken.add(slot);
      return;
    }
    this.#grants.waiting.schedule.clear(this);
    this.#step = this.#grants.backoff.initial;
    this.#ask(slots);
  }

  /**
   * Call when a lease of the key was released in this thread. Waiters in other threads and processes are not
   * notified of it. So if such releases have woken this group for as long as the longest pause, the group
   * makes one such pause, in which others can get the key.
   */
  wakeNext(name: string): void {
    const { backoff, waiting } = this.#grants;
    const now = waiting.schedule.now();
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
    waiting.schedule.set(this, Math.min(waiting.schedule.now() + length, this.#lastChance()));
  }

  #pauseUnlessWoken(): void {
    if (this.#woken) this.wake([...this.#woken]);
    else this.pause();
  }

  #answered(attempt: number, granted: boolean, failure: unknown): void {
    this.failure = failure;
    this.silentSince = undefined;
    if (failure === undefined) this.answeredAt = this.#grants.waiting.schedule.now();
    if (this.#asking === attempt) {
      this.#asking = 0;
      // A failed attempt gives back the keys that it may hold, and this wakes the group. The group must not
      // ask again because of that, or it would ask thousands of times a second.
      if (failure === undefined) this.#pauseUnlessWoken();
      else this.pause();
    } else if (this.waiters.size > 0 && (isPermanent(failure) || this.#mayShare(granted))) {
      // After a grant, the next waiter has the same owner, so the store also grants it the key. A permanent
      // failure also concerns the next waiter.
      this.wake();
    }
  }

  /**
   * Whether the store also grants the key to the next waiter after a grant to the head, because both have the
   * same owner. It does not if the key has a limit.
   */
  #mayShare(granted: boolean): boolean {
    return granted && this.limit === 1 && this.#grants.stableOwners;
  }

  /**
   * The latest time for another attempt before the head's timeout. It is `backoff.initial` milliseconds
   * before the timeout, or halfway to the timeout if that is later. It is the timeout itself if no further
   * attempt can be made.
   */
  #lastChance(): number {
    const { endsAt } = this.#head!;
    const { backoff, waiting } = this.#grants;
    const left = endsAt - waiting.schedule.now();
    if (left > 2 * backoff.initial) return endsAt - backoff.initial;
    return left > SHORTEST_CHANCE ? endsAt - left / 2 : endsAt;
  }

  #end(): void {
    this.#grants.waiting.schedule.clear(this);
    for (const stop of this.#stopListening ?? []) stop();
    this.#asking = 0;
    this.#lines.drop(this);
  }
}
