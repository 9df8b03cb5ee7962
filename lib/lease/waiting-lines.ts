import { isPermanent } from './contract/errors.js';
import { reportsReleases, type LeaseStore } from './contract/lease-store.js';
import { allSlots, fromAny, slotKeys } from './contract/slots.js';
import type { Due } from './schedule.js';
import type { Acquisition, Answers } from './acquisition.js';
import type { LeaseSource } from './lease-source.js';

/** Milliseconds. If less time is left before a timeout, no further attempt is made. */
const SHORTEST_CHANCE = 10;

/** The waiting lines of each manager of this thread, by store, in the order of the managers' turns. */
const managersOf = new WeakMap<LeaseStore, Set<WaitingLines>>();

/**
 * Called when a manager of this thread has released the key of the store called `name`. Wakes a waiter of the manager whose
 * turn it is, unless the store reports releases by itself.
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
 * The waiting acquisitions of one manager, in one line for each key of the store, ordered by arrival. Only the first in a line
 * polls the store, with growing pauses, so thousands of waiters burden the store no more than one. After a grant the next one
 * becomes the first.
 *
 * An acquisition with a limit stands in the line of each slot. Only the first in the line of a slot may take that slot. All
 * waiters for the same key with the same limit are a {@link WaiterGroup}. The group stands in those lines as one waiter.
 */
export class WaitingLines {
  readonly grants: LeaseSource;
  readonly store: LeaseStore;
  /**
   * For each key of the store, the groups that stand in its line. A group is ordered by arrival, so the first in a line is the
   * first of one of its groups, and a waiter costs the same whatever its limit.
   */
  readonly #lines = new Map<string, readonly WaiterGroup[]>();
  /** How many waiters have joined a line. */
  #arrivals = 0;

  constructor(grants: LeaseSource, store: LeaseStore) {
    this.grants = grants;
    this.store = store;
  }

  /** `wasRefused`: the store has just refused the waiter the key, so the waiter need not ask at once. */
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

  /** `mayBeFree`: the waiter leaves without the key, or with one of its slots, and the rest has no known holder. */
  leave(key: string, waiter: Acquisition, mayBeFree: boolean): void {
    this.#find(key, waiter.limit)?.leave(waiter, mayBeFree);
  }

  /** Whether an acquisition waits for the key of the store. */
  isAwaited(name: string): boolean {
    return this.#at(name).some((group) => group.isAwaited);
  }

  /** The store's answers to the group of the key and limit, or, if that has not asked yet, to the group that goes first. */
  answersFor(key: string, limit: number): Answers | undefined {
    const group = this.#find(key, limit);
    return group?.hasAsked === true ? group : this.first(key);
  }

  /** False if no acquisition waits for the key of the store. */
  wakeNext(name: string): boolean {
    const group = this.first(name);
    group?.wakeNext(name);
    return group !== undefined;
  }

  /** The group whose first waiter is the first in the line of the key of the store. */
  first(name: string): WaiterGroup | undefined {
    const groups = this.#at(name);
    if (groups.length < 2) return groups[0];
    return groups.reduce((first, group) => (group.arrival < first.arrival ? group : first));
  }

  /** The keys of the store in whose lines the group is first, and another group stands behind it. */
  sharedBy(group: WaiterGroup): readonly string[] {
    return group.names.filter((name) => this.#at(name).length > 1 && this.first(name) === group);
  }

  /** The group has no waiters any more. */
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

/** The acquisitions that wait for one key with one limit, ordered by arrival. The first of them, the head, polls the store. */
class WaiterGroup implements Due, Answers {
  deadline = Infinity;
  place = -1;
  failure: unknown;
  answeredAt: number | undefined;
  silentSince: number | undefined;
  readonly waiters = new Set<Acquisition>();
  readonly key: string;
  readonly limit: number;
  /** The keys of its slots in the store: one without a limit. */
  readonly names: readonly string[];
  readonly #lines: WaitingLines;
  readonly #grants: LeaseSource;
  /** The number of the attempt whose answer the group waits for; 0 for none. An attempt of an earlier head may still run. */
  #asking = 0;
  #attempts = 0;
  /** The slots that the last attempt tries, in that order. */
  #trying: readonly number[] = [];
  /** The next pause, in milliseconds, before jitter. */
  #step: number;
  /** The slots released while an attempt had no answer: the answer may be older than the release. Undefined for none. */
  #woken: Set<number> | undefined;
  /** Since when releases in this thread have woken this group. */
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

  /** False while its only waiter makes its first attempt. */
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

  /** Starts an attempt of the head, for the slots that it may take. `slots`: those that may be free, if not all. */
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
      // The head was granted, or no longer waits for the answer, so the others need not wait for that answer either.
      this.#asking = 0;
      if (mayBeFree) this.wake(this.#leftBy(waiter));
      else this.#pauseUnlessWoken();
    } else if (waiter === head) {
      this.#grants.waiting.schedule.set(this, Math.min(this.deadline, this.#lastChance()));
    }
    for (const name of shared) this.#lines.first(name)?.wakeFor(name);
  }

  /** The slots that the granted head did not try, and those released since its attempt began. Undefined for all. */
  #leftBy({ slot }: Acquisition): readonly number[] | undefined {
    if (slot === undefined) return undefined;
    const untried = this.#trying.slice(this.#trying.indexOf(slot) + 1);
    return [...new Set([...untried, ...(this.#woken ?? [])])];
  }

  /** The key of the store, which belongs to one of its slots, may be free. */
  wakeFor(name: string): void {
    this.wake([this.names.indexOf(name)]);
  }

  /** Some of these slots may be free. Without `slots`, any of the key's. */
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
   * A lease of the key was released in this thread. Waiters of other threads and processes are not notified. So after this
   * group was woken for as long as the longest pause, it leaves the others one such pause.
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

  /** If the head's timeout would expire during the pause, the pause is cut to leave time for one more attempt. */
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
      // A failed attempt gives back what it may hold, which wakes this group. If that counted, it would ask thousands of times a second.
      if (failure === undefined) this.#pauseUnlessWoken();
      else this.pause();
    } else if (this.waiters.size > 0 && (isPermanent(failure) || this.#mayShare(granted))) {
      // The next waiter has the same owner, so the store grants it, too; or a permanent failure concerns it, too.
      this.wake();
    }
  }

  /** Whether a grant to the head lets the next waiter have the key, too: it has the same owner, and no slot is involved. */
  #mayShare(granted: boolean): boolean {
    return granted && this.limit === 1 && this.#grants.stableOwners;
  }

  /** One first pause before the head's timeout, or half of the time that is left if that pause would not fit. */
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
