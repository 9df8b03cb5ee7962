import { isPermanent } from '../contract/errors.js';
import { reportsReleases, type LeaseStore } from '../contract/lease-store.js';
import { fromAny, slotKeys } from '../contract/slots.js';
import type { Due } from '../hold/schedule.js';
import type { Acquisition, Answers } from './acquisition.js';
import type { LeaseSource } from './lease-source.js';

/** Milliseconds: with less time left, nobody asks again. */
const SHORTEST_CHANCE = 10;

/** Created once: most queues are for one slot and lead its line alone. */
const ONLY_SLOT: readonly number[] = [0];
const NONE: readonly never[] = [];

/** The managers of this thread that have queues over a store, in the order of their turns. */
const queuesOf = new WeakMap<LeaseStore, Set<WaitingLine>>();

/**
 * A manager of this thread has released a lease of that name in the store. Tells the manager whose turn it is, unless the
 * store reports releases by itself.
 */
export function handOn(store: LeaseStore, name: string): void {
  const managers = queuesOf.get(store);
  if (managers === undefined) return;
  for (const queues of managers) {
    if (!queues.handOn(name)) continue;
    managers.delete(queues);
    managers.add(queues);
    return;
  }
}

/**
 * The acquisitions of a manager that wait for keys of a store that must be asked, in one line for each key of the store. Only
 * the first in a line asks, again and again, with growing pauses, so thousands of waiters burden the store no more than one.
 * After a grant the next one becomes the first.
 */
export class WaitingLine {
  readonly #grants: LeaseSource;
  readonly #store: LeaseStore;
  readonly #queues = new QueueIndex();

  constructor(grants: LeaseSource, store: LeaseStore) {
    this.#grants = grants;
    this.#store = store;
  }

  /** `wasRefused`: it has just been refused the key, and need not ask at once. */
  join(key: string, waiter: Acquisition, wasRefused: boolean): void {
    waiter.arrival = this.#queues.arrive();
    const queue = this.#queues.find(key, waiter.limit);
    if (queue) {
      queue.waiters.add(waiter);
      return;
    }
    if (this.#queues.isEmpty) this.#enlist();
    const added = new PollingQueue(this.#grants, this.#store, this.#queues, key, waiter, () =>
      this.#drop(added),
    );
    this.#queues.add(added);
    if (wasRefused) added.pause();
    else added.run();
  }

  /** `mayBeFree`: it leaves without the key, or with one of its slots, and no other holder is known of the rest. */
  leave(key: string, waiter: Acquisition, mayBeFree: boolean): void {
    this.#queues.find(key, waiter.limit)?.leave(waiter, mayBeFree);
  }

  /** Whether an acquisition waits for the key of the store. */
  isAwaited(name: string): boolean {
    return this.#queues.at(name).some((queue) => queue.isAwaited);
  }

  /** The store's answers to those that asked for the key with that limit, or went first. */
  answersFor(key: string, limit: number): Answers | undefined {
    const queue = this.#queues.find(key, limit);
    return queue?.hasAsked === true ? queue : this.#queues.first(key);
  }

  /** False if nobody waits for that. */
  handOn(name: string): boolean {
    const queue = this.#queues.first(name);
    queue?.handOn(name);
    return queue !== undefined;
  }

  #enlist(): void {
    if (reportsReleases(this.#store)) return;
    let managers = queuesOf.get(this.#store);
    if (managers === undefined) queuesOf.set(this.#store, (managers = new Set()));
    managers.add(this);
  }

  #drop(queue: PollingQueue): void {
    this.#queues.delete(queue);
    if (this.#queues.isEmpty) queuesOf.get(this.#store)?.delete(this);
  }
}

/** The acquisitions that wait for one key with one limit. */
class PollingQueue implements Due, Answers {
  deadline = Infinity;
  place = -1;
  failure: unknown;
  answeredAt: number | undefined;
  silentSince: number | undefined;
  readonly waiters = new Set<Acquisition>();
  readonly #grants: LeaseSource;
  readonly #store: LeaseStore;
  readonly #lines: QueueIndex;
  readonly key: string;
  readonly limit: number;
  /** Of its slots, in the store: one without a limit. */
  readonly #names: readonly string[];
  readonly #ended: () => void;
  /** The attempt whose answer the queue waits for; 0 for none. An acquisition may come back while an older one runs. */
  #asking = 0;
  #attempts = 0;
  /** The slots that the last attempt tries, in that order. */
  #trying: readonly number[] = [];
  /** The next pause, in milliseconds, before jitter. */
  #step: number;
  /** The slots for which it was woken while it asked: the answer may be older than the release. */
  readonly #woken = new Set<number>();
  /** Since when the key has been handed on within this process. */
  #handingOnSince: number | undefined;
  #stopListening: readonly (() => void)[] | undefined;
  #hasPaused = false;

  constructor(
    grants: LeaseSource,
    store: LeaseStore,
    lines: QueueIndex,
    key: string,
    first: Acquisition,
    ended: () => void,
  ) {
    this.#grants = grants;
    this.#store = store;
    this.#lines = lines;
    this.key = key;
    this.limit = first.limit;
    this.#names = slotKeys(key, first.limit);
    this.#ended = ended;
    this.#step = grants.backoff.initial;
    this.waiters.add(first);
  }

  /** Whether somebody waits, and not only asks for the first time. */
  get isAwaited(): boolean {
    return this.#hasPaused || this.waiters.size > 1;
  }

  get hasAsked(): boolean {
    return this.#attempts > 0;
  }

  /** When its first waiter joined it, as {@link QueueIndex.arrive} counted; Infinity without waiters. */
  get arrival(): number {
    const [head] = this.waiters;
    return head?.arrival ?? Infinity;
  }

  /** Called by the schedule when a pause ends. */
  run(): void {
    this.#ask();
  }

  /** Has the head ask for the slots that it may take. `slots`: which of them may be free, if not all. */
  #ask(slots?: readonly number[]): void {
    const [head] = this.waiters;
    if (head === undefined) return;
    const own = this.#lines.slotsOf(this);
    this.#trying = slots === undefined ? fromAny(own) : slots.filter((slot) => own.includes(slot));
    this.#woken.clear();
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
    const [head] = this.waiters;
    const shared = waiter === head ? this.#lines.sharedBy(this) : [];
    if (!this.waiters.delete(waiter)) return;
    if (this.waiters.size === 0) {
      this.#end();
    } else if (waiter === head && this.#asking !== 0) {
      // It was granted, or does not wait for the answer any more, so the others need not wait for it either.
      this.#asking = 0;
      if (mayBeFree) this.wake(this.#leftBy(waiter));
      else this.#pauseUnlessWoken();
    } else if (waiter === head) {
      this.#grants.waiting.schedule.set(this, Math.min(this.deadline, this.#lastChance()));
    }
    for (const name of shared) this.#lines.first(name)?.wakeFor(name);
  }

  /** The slots that the granted head did not try, and those released since it asked. Undefined for all. */
  #leftBy({ slot }: Acquisition): readonly number[] | undefined {
    if (slot === undefined) return undefined;
    const untried = this.#trying.slice(this.#trying.indexOf(slot) + 1);
    return [...new Set([...untried, ...this.#woken])];
  }

  /** The key of the store, which belongs to one of its slots, may be free. */
  wakeFor(name: string): void {
    this.wake([this.#names.indexOf(name)]);
  }

  /** One of the slots may be free; without any, each of them. */
  wake(slots?: readonly number[]): void {
    if (this.#asking !== 0) {
      for (const slot of slots ?? this.#names.keys()) this.#woken.add(slot);
      return;
    }
    this.#grants.waiting.schedule.clear(this);
    this.#step = this.#grants.backoff.initial;
    this.#ask(slots);
  }

  /**
   * A lease of the key was released in this thread. Waiters of other processes do not hear of it. So when the key has
   * been handed on here for as long as their longest pause, this thread leaves them one such pause.
   */
  handOn(name: string): void {
    const { backoff, waiting } = this.#grants;
    const now = waiting.schedule.now();
    this.#handingOnSince ??= now;
    if (now - this.#handingOnSince < backoff.max) {
      this.wakeFor(name);
      return;
    }
    this.#handingOnSince = undefined;
    this.#step = backoff.max;
    if (this.#asking === 0) this.pause();
  }

  /** If the head's timeout would come before the end of the pause, the pause leaves room for one more attempt. */
  pause(): void {
    const store = this.#store;
    const { backoff, waiting } = this.#grants;
    this.#hasPaused = true;
    if (reportsReleases(store)) {
      this.#stopListening ??= this.#names.map((name) => {
        return store.onRelease(name, () => this.#lines.first(name)?.wakeFor(name));
      });
    }
    const length = this.#step * (1 - backoff.jitter * Math.random());
    this.#step = Math.min(this.#step * 2, backoff.max);
    waiting.schedule.set(this, Math.min(waiting.schedule.now() + length, this.#lastChance()));
  }

  #pauseUnlessWoken(): void {
    if (this.#woken.size > 0) this.wake([...this.#woken]);
    else this.pause();
  }

  #answered(attempt: number, granted: boolean, failure: unknown): void {
    this.failure = failure;
    this.silentSince = undefined;
    if (failure === undefined) this.answeredAt = this.#grants.waiting.schedule.now();
    if (this.#asking === attempt) {
      this.#asking = 0;
      // What a failed attempt gives back wakes its own queue: it would ask thousands of times a second.
      if (failure === undefined) this.#pauseUnlessWoken();
      else this.pause();
    } else if (this.waiters.size > 0 && (isPermanent(failure) || this.#mayShare(granted))) {
      // The store also grants the next one, which has the same owner; or refuses it, too, which it need not wait for.
      this.wake();
    }
  }

  /** Whether the head was granted what the next one can have, too: a slot is for one. */
  #mayShare(granted: boolean): boolean {
    return granted && this.limit === 1 && this.#grants.stableOwners;
  }

  /** One first pause before the head's timeout, or half of the time that is left if that pause would not fit. */
  #lastChance(): number {
    const [head] = this.waiters;
    const { backoff, waiting } = this.#grants;
    const left = head!.endsAt - waiting.schedule.now();
    if (left > 2 * backoff.initial) return head!.endsAt - backoff.initial;
    return left > SHORTEST_CHANCE ? head!.endsAt - left / 2 : head!.endsAt;
  }

  #end(): void {
    this.#grants.waiting.schedule.clear(this);
    for (const stop of this.#stopListening ?? []) stop();
    this.#asking = 0;
    this.#ended();
  }
}

/**
 * The waiting lines: one for each key of the store, in order of arrival, whatever the acquisitions in it want. An acquisition
 * with a limit stands in the line of each slot. Only the first in the line of a slot may take that slot.
 *
 * A line is kept as queues, one for each key and limit. Each queue is in order of arrival, so the first in the line is the
 * first of one of its queues, and a waiter costs the same whatever its limit.
 */
class QueueIndex {
  readonly #queues = new Map<string, readonly PollingQueue[]>();
  #arrivals = 0;

  get isEmpty(): boolean {
    return this.#queues.size === 0;
  }

  /** The number of an acquisition that joins a queue. Later ones have higher numbers. */
  arrive(): number {
    return ++this.#arrivals;
  }

  find(key: string, limit: number): PollingQueue | undefined {
    return this.#queues.get(key)?.find((queue) => queue.key === key && queue.limit === limit);
  }

  /** Those that wait for the key of the store, which is called `name`. */
  at(name: string): readonly PollingQueue[] {
    return this.#queues.get(name) ?? [];
  }

  /** The queue whose first waiter is the first in the line of the key of the store. */
  first(name: string): PollingQueue | undefined {
    const queues = this.at(name);
    if (queues.length < 2) return queues[0];
    return queues.reduce((first, queue) => (queue.arrival < first.arrival ? queue : first));
  }

  /** The slots that the first waiter of the queue may take. */
  slotsOf(queue: PollingQueue): readonly number[] {
    if (queue.limit === 1) return this.first(queue.key) === queue ? ONLY_SLOT : NONE;
    return slotKeys(queue.key, queue.limit)
      .map((name, slot) => (this.first(name) === queue ? slot : -1))
      .filter((slot) => slot >= 0);
  }

  /** The keys of the store whose lines the queue leads, and in which another queue stands, too. */
  sharedBy(queue: PollingQueue): readonly string[] {
    if (queue.limit === 1 && this.at(queue.key).length < 2) return NONE;
    return slotKeys(queue.key, queue.limit).filter(
      (name) => this.at(name).length > 1 && this.first(name) === queue,
    );
  }

  add(queue: PollingQueue): void {
    for (const name of slotKeys(queue.key, queue.limit)) this.#queues.set(name, [...this.at(name), queue]);
  }

  delete(queue: PollingQueue): void {
    for (const name of slotKeys(queue.key, queue.limit)) {
      const left = this.at(name).filter((other) => other !== queue);
      if (left.length > 0) this.#queues.set(name, left);
      else this.#queues.delete(name);
    }
  }
}
