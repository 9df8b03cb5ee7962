import { timerNow } from '../common/elapsed.js';
import { afterTurn, clearTimeout, queueMicrotask, setTimeout } from '../common/host.js';
import { Alarm } from '../common/timers.js';
import type { LockMode } from '../common/types.js';
import type { Release } from './server-store.js';

/**
 * Milliseconds for which a key and the subscription are kept after their last waiter has left. A contended
 * key often gets a new waiter soon.
 */
const LINGER = 1000;
/**
 * The maximum duration of a series of hand-overs between waiters of this store, in milliseconds. While the
 * server sends no notifications, a release through this store wakes only waiters of this store. After this
 * time, one release wakes no waiter, so that another store can get the key.
 */
const LONGEST_RUN = 1000;
/**
 * The maximum duration of a turn, in milliseconds. During its turn, a store may acquire a key again and again
 * although other stores wait. A hand-over to another store takes as long as several acquisitions. A lease that
 * is held for longer than a turn is handed over when it is released.
 */
export const LONGEST_TURN = 5;
/**
 * A store without other waiters continues its turn only if it requested the key within this many milliseconds
 * after its last release. If a store does not request the key again, the other stores wait for nothing.
 */
const RETURNS_WITHIN = 1;

/** Callbacks from a backend's subscription. */
export interface ReleaseListener {
  /** A key was released. */
  readonly released: (topic: string) => void;
  /**
   * Notifications arrive from now on. Called when the subscription is open, and again after each
   * interruption.
   */
  readonly subscribed: () => void;
  /**
   * Notifications may be lost until the next call of `subscribed`. The subscription may recover by itself.
   */
  readonly interrupted: () => void;
  /** The subscription ended or could not be opened. A backend must not call this before `open` returns. */
  readonly lost: () => void;
}

/** A backend's subscription to releases. */
export interface ReleaseFeed {
  /** Milliseconds to wait before a lost subscription is opened again. */
  readonly retryAfter: number;
  /** The topic that identifies a key in notifications. Default: the key's name. */
  topicOf?(name: string): string;
  /**
   * Wakes a waiter of another store. Called if the server notified only this store of a release, and this
   * store has no waiter left.
   */
  passOn?(topic: string): void;
  /**
   * Opens a subscription. The returned function closes the subscription, and must not throw or reject.
   * `awaited` returns the topics of the keys that have waiters but no pending attempt.
   */
  open(listener: ReleaseListener, awaited: () => readonly string[]): () => unknown;
}

/** The waiters of one store for one key. */
export class Waiters {
  /** The waiters, in the order in which they will be woken. */
  readonly all = new Set<() => void>();
  /** The number of waiters that {@link wakeNext} may still wake. */
  #left = 0;
  readonly #alarm = new Alarm(() => this.wake(), false);

  /**
   * Wakes the first waiter, and moves this waiter to the end, so that the next call wakes another waiter. The
   * woken waiter might not make an attempt, or its attempt might be refused.
   */
  wake(): void {
    this.#left = this.all.size;
    this.wakeNext();
  }

  /** Wakes the next waiter, unless all waiters have been woken since the last call of `wake`. */
  wakeNext(): void {
    const [first] = this.all;
    if (!first || this.#left <= 0) return;
    this.#left--;
    this.all.delete(first);
    this.all.add(first);
    first();
  }

  /** After an exclusive grant, {@link wakeNext} wakes no waiter until the next call of `wake`. */
  stopWaking(): void {
    this.#left = 0;
  }

  /**
   * Wakes a waiter within this time. The earliest such time counts, because waiters in different modes wait for
   * different events. A waiter that is woken too early just retries.
   */
  wakeIn(milliseconds: number): void {
    this.#alarm.setFor(timerNow() + milliseconds, milliseconds);
  }

  close(): void {
    this.#alarm.stop();
    this.all.clear();
  }
}

/** A key that has waiters in this store, or that lost its last waiter less than `LINGER` milliseconds ago. */
class AwaitedKey extends Waiters {
  /** The timer that removes the key from the map. Set while the key has no waiters. */
  idle: NodeJS.Timeout | undefined;
  /** The number of attempts that have no answer yet. */
  pendingAttempts = 0;
  /**
   * Whether the server has registered this store as waiting. If true, an immediate retry would change
   * nothing.
   */
  isRegistered = false;
  /**
   * Whether a release was reported since the last attempt, or the server reserved the key for this store when
   * this store released it.
   */
  wasReleased = false;
  /** The time of the first release in the current series of hand-overs within this store. */
  handOversSince: number | undefined;
  /** The time of the first grant in the current turn, see {@link LONGEST_TURN}. */
  turnSince: number | undefined;
  /** The time of the last release through this store. Undefined after the next attempt or event-loop turn. */
  releasedAt: number | undefined;
  /**
   * Whether an attempt followed the last release in the same event-loop turn and within
   * {@link RETURNS_WITHIN}.
   */
  returns = false;

  constructor(readonly topic: string) {
    super();
  }
}

/**
 * Wakes the waiters of this store when a key may be free: after a reported release, and when the current
 * lease expires. The waiters for a key are woken one at a time, in turn, because usually only one of them can get
 * the key. After each attempt in shared mode, the next waiter is woken, because it may get the key, too. Each
 * waiter also polls, which covers lost notifications.
 *
 *     idle → opening → subscribed ⇄ interrupted → (retryAfter) → opening
 *
 * The subscription stays open while there are waiters, and for {@link LINGER} milliseconds after the last
 * waiter has left. After the last waiter for a key has left, the key is remembered for the same time. An
 * attempt to acquire a remembered key also registers this store as waiting, which saves a separate request. A
 * release that is reported before the answer to this attempt is not missed either.
 */
export class Wakers {
  readonly #feed: ReleaseFeed | undefined;
  /** The keys with waiters, and the remembered keys, by topic. */
  readonly #keys = new Map<string, AwaitedKey>();
  #listener: ReleaseListener | undefined;
  #end: (() => unknown) | undefined;
  #isSubscribed = false;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(releaseFeed: ReleaseFeed | undefined) {
    this.#feed = releaseFeed;
  }

  /** Whether releases through other stores are reported. */
  get isSubscribed(): boolean {
    return this.#isSubscribed;
  }

  /** Adds a waiter. The returned function removes the waiter. */
  listen(name: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    const topic = this.#topicOf(name);
    let waiting = this.#keys.get(topic);
    if (!waiting) this.#keys.set(topic, (waiting = new AwaitedKey(topic)));
    clearTimeout(waiting.idle);
    const isFirst = waiting.all.size === 0;
    waiting.all.add(listener);
    if (this.#retry === undefined) this.#open();
    // Retry if the key was released since the last attempt, or to let the server register this store as
    // waiting.
    const asksAgain = waiting.wasReleased || (isFirst && this.#isSubscribed && !waiting.isRegistered);
    if (asksAgain) queueMicrotask(() => waiting.wake());
    return () => this.#leave(waiting, listener);
  }

  /**
   * Call when an attempt is sent. When the attempt ends, call the returned function with the mode in which its
   * keys were granted, or undefined. Returns undefined if no key of the attempt is remembered. In that case, the
   * end of the attempt need not be reported.
   */
  attempt(names: readonly string[]): ((granted: LockMode | undefined) => void) | undefined {
    if (this.#keys.size === 0) return undefined;
    const awaited = names
      .map((name) => this.#keys.get(this.#topicOf(name)))
      .filter((key) => key !== undefined);
    if (awaited.length === 0) return undefined;
    for (const waiting of awaited) {
      waiting.pendingAttempts++;
      waiting.wasReleased = false;
      if (waiting.releasedAt === undefined) continue;
      waiting.returns = timerNow() - waiting.releasedAt < RETURNS_WITHIN;
      waiting.releasedAt = undefined;
    }
    return (granted) => {
      for (const waiting of awaited) {
        waiting.pendingAttempts--;
        if (granted !== undefined) waiting.turnSince ??= timerNow();
        if (granted === 'exclusive') waiting.stopWaking();
        this.#passOnLater(waiting);
      }
    };
  }

  /** Records that another owner holds the key. See `Refused` for the parameters. */
  refused(name: string, wakeIn: number | undefined, isRegistered: boolean): void {
    const waiting = this.#keys.get(this.#topicOf(name));
    if (!waiting) return;
    waiting.isRegistered = isRegistered;
    if (wakeIn !== undefined) waiting.wakeIn(wakeIn);
  }

  /**
   * Call after an attempt in shared mode. Wakes the next waiter of this store. If the reader was put off, a writer
   * can get the key, and if the reader was granted the key, other readers can.
   */
  askedShared(name: string): void {
    this.#keys.get(this.#topicOf(name))?.wakeNext();
  }

  /**
   * Call before a release is sent. Whether this store may acquire the key again before the waiters of other
   * stores: it will probably do so at once, and its turn has not ended.
   */
  isInTurn(name: string): boolean {
    if (!this.#isSubscribed || this.#feed?.passOn === undefined) return false;
    const waiting = this.#keys.get(this.#topicOf(name));
    if (waiting?.turnSince === undefined) return false;
    const isRequested = waiting.returns || waiting.all.size > 0;
    if (isRequested && timerNow() - waiting.turnSince < LONGEST_TURN) return true;
    waiting.turnSince = undefined;
    return false;
  }

  /**
   * Call with the answer to a release through this store. If a release failed that was sent in the store's
   * turn, call with `reserved`, because the server may have reserved the key.
   */
  answered(name: string, release: Release | undefined): void {
    if (release === 'unnotified') this.released(name);
    if (this.#feed?.passOn === undefined || release === 'not held') return;
    const isReserved = release === 'reserved';
    const topic = this.#topicOf(name);
    const waiting = this.#keys.get(topic);
    if (waiting === undefined) {
      if (isReserved) this.#feed.passOn(topic);
      return;
    }
    waiting.releasedAt = timerNow();
    if (isReserved) {
      waiting.wasReleased = true;
      waiting.wake();
    }
    afterTurn(() => {
      if (waiting.releasedAt !== undefined) waiting.returns = false;
      waiting.releasedAt = undefined;
      if (isReserved && waiting.pendingAttempts === 0) this.#notifyNext(waiting);
    });
  }

  /** Call after a release through this store if the server notified no store of the release. */
  released(name: string): void {
    const waiting = this.#keys.get(this.#topicOf(name));
    if (!waiting) return;
    const now = timerNow();
    waiting.handOversSince ??= now;
    if (this.#isSubscribed || now - waiting.handOversSince < LONGEST_RUN) waiting.wake();
    else waiting.handOversSince = undefined;
  }

  /** Ends the subscription and forgets all waiters. Resolves once the subscription has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const waiting of this.#keys.values()) {
      waiting.close();
      if (waiting.pendingAttempts === 0) this.#notifyNext(waiting);
      clearTimeout(waiting.idle);
    }
    this.#keys.clear();
    await this.#disconnect();
  }

  #topicOf(name: string): string {
    return this.#feed?.topicOf?.(name) ?? name;
  }

  #open(): void {
    if (this.#listener !== undefined || this.#feed === undefined) return;
    const ifOpen =
      <A extends unknown[]>(then: (...args: A) => void) =>
      (...args: A): void => {
        if (this.#listener === listener) then(...args);
      };
    const listener: ReleaseListener = {
      released: ifOpen((topic: string) => this.#onRelease(topic)),
      subscribed: ifOpen(() => this.#onSubscribed()),
      interrupted: ifOpen(() => this.#onInterrupted()),
      lost: ifOpen(() => this.#onLost()),
    };
    this.#listener = listener;
    try {
      this.#end = this.#feed.open(listener, () => this.#awaited());
    } catch {
      this.#onLost();
    }
  }

  #awaited(): readonly string[] {
    const keys = [...this.#keys.values()];
    return keys
      .filter(({ all, pendingAttempts }) => all.size > 0 && pendingAttempts === 0)
      .map(({ topic }) => topic);
  }

  #onRelease(topic: string): void {
    const waiting = this.#keys.get(topic);
    if (waiting === undefined) {
      this.#feed!.passOn?.(topic);
      return;
    }
    waiting.wasReleased = true;
    waiting.wake();
    this.#passOn(waiting);
  }

  /**
   * Releases may have been missed before the subscription was open, so the first waiter of each key retries.
   */
  #onSubscribed(): void {
    this.#isSubscribed = true;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    for (const waiting of this.#keys.values()) {
      waiting.isRegistered = false;
      waiting.handOversSince = undefined;
      waiting.wake();
    }
  }

  /** Waiters poll until the subscription is restored. */
  #onInterrupted(): void {
    this.#isSubscribed = false;
    this.#openLater();
  }

  #onLost(): void {
    void this.#disconnect();
    this.#openLater();
  }

  #openLater(): void {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      void this.#disconnect();
      const isNeeded = [...this.#keys.values()].some(({ all }) => all.size > 0);
      if (isNeeded) this.#open();
    }, this.#feed!.retryAfter).unref();
  }

  /**
   * Notifies another store of a release that was reported only to this store, if this store has neither a
   * waiter nor a pending attempt for the key.
   */
  #passOn(waiting: AwaitedKey): void {
    if (waiting.all.size === 0 && waiting.pendingAttempts === 0) this.#notifyNext(waiting);
  }

  /**
   * Notifies another store of a release that was reported only to this store. This store is then no longer
   * registered on the server, so one of its waiters retries, which registers it again.
   */
  #notifyNext(waiting: AwaitedKey): void {
    if (!waiting.wasReleased || this.#feed?.passOn === undefined) return;
    waiting.wasReleased = waiting.returns = waiting.isRegistered = false;
    this.#feed.passOn(waiting.topic);
    waiting.wake();
  }

  /** Waits for a turn of the event loop, so that a refused acquisition can first become a waiter. */
  #passOnLater(waiting: AwaitedKey): void {
    if (waiting.wasReleased) afterTurn(() => this.#passOn(waiting));
  }

  #leave(waiting: AwaitedKey, listener: () => void): void {
    waiting.all.delete(listener);
    if (waiting.all.size > 0 || this.#keys.get(waiting.topic) !== waiting) return;
    waiting.close();
    this.#passOnLater(waiting);
    // The subscription keeps the process alive until the timer fires, so the timer need not do so.
    clearTimeout(waiting.idle);
    waiting.idle = setTimeout(() => {
      this.#keys.delete(waiting.topic);
      if (this.#keys.size === 0) void this.#disconnect();
    }, LINGER).unref();
  }

  async #disconnect(): Promise<void> {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const end = this.#end;
    this.#end = this.#listener = undefined;
    this.#isSubscribed = false;
    await end?.();
  }
}
