import { timerNow } from '../common/elapsed.js';
import { afterTurn, clearTimeout, queueMicrotask, setTimeout } from '../common/host.js';
import { LONGEST_DELAY } from '../common/alarm.js';

/**
 * Milliseconds for which a key is remembered after its last listener has gone, and the subscription kept, since hand-overs
 * often follow each other.
 */
const LINGER = 1000;
/** Milliseconds: where the server tells nobody, a key is handed on within one store for so long before others get a chance. */
const LONGEST_RUN = 1000;

/** What a backend tells of a subscription. */
export interface Ears {
  /** A release. */
  readonly heard: (topic: string) => void;
  /** It hears from now on. Also when it could not for a while. */
  readonly ready: () => void;
  /** It does not hear now, but may go on by itself. */
  readonly interrupted: () => void;
  /** It has ended, or cannot begin. Not to be called before `open` returns. */
  readonly lost: () => void;
}

/** How a backend hears of releases. */
export interface Hearing {
  /** Milliseconds until a lost subscription is opened again. */
  readonly retryAfter: number;
  /** What is heard of a key, if that is not its name. */
  topicOf?(name: string): string;
  /** A release was told to this store alone, and nobody waits here any more. */
  passOn?(topic: string): void;
  /** Opens a subscription, which lasts until the returned function is called, which must not throw or reject. */
  open(ears: Ears): () => unknown;
}

/** Those who wait in one store for one key. */
export class Listeners {
  /** In the order of their turns. */
  readonly all = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  /** The one that is woken goes to the end, as it may not ask, or may be refused. */
  wake(): void {
    const [first] = this.all;
    if (!first) return;
    this.all.delete(first);
    this.all.add(first);
    first();
  }

  wakeIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    // A time that no timer reaches does not matter here: polling comes first.
    this.#timer = setTimeout(() => this.wake(), Math.min(milliseconds, LONGEST_DELAY)).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.all.clear();
  }
}

/** A key that somebody in this store waits for, or did a moment ago. */
class AwaitedKey extends Listeners {
  /** Without listeners: until it is forgotten. */
  idle: NodeJS.Timeout | undefined;
  /** How many attempts at it were not answered. */
  asking = 0;
  /** Whether the server knows of the wait: to ask once more would change nothing. */
  isKnown = false;
  /** Whether its release was heard of since the last attempt. */
  isNews = false;
  /** Since when it has been handed on within this store. */
  handedOnSince: number | undefined;

  constructor(readonly topic: string) {
    super();
  }
}

/**
 * Wakes those who wait in this store for a key when it may be free: when its release is heard of, and when the lease that
 * they wait for expires. It wakes one at a time, in turn, so that thousands do not ask for what one of them can have. The
 * waiters' own polling finds what it misses.
 *
 *     idle → opening → hearing ⇄ interrupted → (retryAfter) → opening
 *
 * The subscription is open while somebody waits, and for {@link LINGER} after that. Until then a key is remembered, too: its
 * next attempt is sent as one of somebody who waits, which saves a request, and a release that is heard of before the answer
 * to it is not lost.
 */
export class Wakers {
  readonly #hearing: Hearing | undefined;
  /** Those who wait, by topic. */
  readonly #keys = new Map<string, AwaitedKey>();
  #ears: Ears | undefined;
  #end: (() => unknown) | undefined;
  #hears = false;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(hearing: Hearing | undefined) {
    this.#hearing = hearing;
  }

  /** Whether the store hears of releases elsewhere. */
  get hears(): boolean {
    return this.#hears;
  }

  /** Returns a function that ends it. */
  listen(name: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    const topic = this.#topicOf(name);
    let waiting = this.#keys.get(topic);
    if (!waiting) this.#keys.set(topic, (waiting = new AwaitedKey(topic)));
    clearTimeout(waiting.idle);
    const isFirst = waiting.all.size === 0;
    waiting.all.add(listener);
    if (this.#retry === undefined) this.#open();
    // It was released since it was asked for; or it is asked for again, so that the server knows of the wait.
    const asksAgain = waiting.isNews || (isFirst && this.#hears && !waiting.isKnown);
    if (asksAgain) queueMicrotask(() => waiting.wake());
    return () => this.#leave(waiting, listener);
  }

  /** An attempt at the keys is sent. Returns what to call when it has ended; undefined if nobody waits for any of them. */
  attempt(names: readonly string[]): (() => void) | undefined {
    if (this.#keys.size === 0) return undefined;
    const awaited = names
      .map((name) => this.#keys.get(this.#topicOf(name)))
      .filter((key) => key !== undefined);
    if (awaited.length === 0) return undefined;
    for (const waiting of awaited) {
      waiting.asking++;
      waiting.isNews = false;
    }
    return () => {
      for (const waiting of awaited) {
        waiting.asking--;
        this.#passOnLater(waiting);
      }
    };
  }

  /** Another has the lease: see `Refused`. */
  refused(name: string, wakeIn: number | undefined, isKnown: boolean): void {
    const waiting = this.#keys.get(this.#topicOf(name));
    if (!waiting) return;
    waiting.isKnown = isKnown;
    if (wakeIn !== undefined) waiting.wakeIn(wakeIn);
  }

  /** The lease was released through this store, and the server has told nobody. */
  released(name: string): void {
    const waiting = this.#keys.get(this.#topicOf(name));
    if (!waiting) return;
    const now = timerNow();
    waiting.handedOnSince ??= now;
    if (this.#hears || now - waiting.handedOnSince < LONGEST_RUN) waiting.wake();
    else waiting.handedOnSince = undefined;
  }

  /** Resolves when no subscription is open any more. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const waiting of this.#keys.values()) {
      waiting.close();
      clearTimeout(waiting.idle);
    }
    this.#keys.clear();
    await this.#disconnect();
  }

  #topicOf(name: string): string {
    return this.#hearing?.topicOf?.(name) ?? name;
  }

  #open(): void {
    if (this.#ears !== undefined || this.#hearing === undefined) return;
    const ifOpen =
      <A extends unknown[]>(then: (...args: A) => void) =>
      (...args: A): void => {
        if (this.#ears === ears) then(...args);
      };
    const ears: Ears = {
      heard: ifOpen((topic: string) => this.#heard(topic)),
      ready: ifOpen(() => this.#ready()),
      interrupted: ifOpen(() => this.#interrupted()),
      lost: ifOpen(() => this.#lost()),
    };
    this.#ears = ears;
    try {
      this.#end = this.#hearing.open(ears);
    } catch {
      this.#lost();
    }
  }

  #heard(topic: string): void {
    const waiting = this.#keys.get(topic);
    if (waiting === undefined) {
      this.#hearing!.passOn?.(topic);
      return;
    }
    waiting.isNews = true;
    waiting.wake();
    this.#passOn(waiting);
  }

  /** Keys may have been released before: the first waiter of each asks again. */
  #ready(): void {
    this.#hears = true;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    for (const waiting of this.#keys.values()) {
      waiting.isKnown = false;
      waiting.handedOnSince = undefined;
      waiting.wake();
    }
  }

  /** Until it hears again, waiters poll. */
  #interrupted(): void {
    this.#hears = false;
    this.#openLater();
  }

  #lost(): void {
    void this.#disconnect();
    this.#openLater();
  }

  #openLater(): void {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      void this.#disconnect();
      const isNeeded = [...this.#keys.values()].some(({ all }) => all.size > 0);
      if (isNeeded) this.#open();
    }, this.#hearing!.retryAfter).unref();
  }

  /** What is heard was for this store alone: unless somebody here asks or waits, another has its turn. */
  #passOn(waiting: AwaitedKey): void {
    if (!waiting.isNews || waiting.all.size > 0 || waiting.asking > 0) return;
    if (this.#hearing!.passOn === undefined) return;
    waiting.isNews = false;
    this.#hearing!.passOn(waiting.topic);
  }

  /** An acquisition that was refused, and now waits, listens by then. */
  #passOnLater(waiting: AwaitedKey): void {
    if (waiting.isNews) afterTurn(() => this.#passOn(waiting));
  }

  #leave(waiting: AwaitedKey, listener: () => void): void {
    waiting.all.delete(listener);
    if (waiting.all.size > 0 || this.#keys.get(waiting.topic) !== waiting) return;
    waiting.close();
    this.#passOnLater(waiting);
    // Until then the subscription keeps the process alive. The timer need not.
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
    this.#end = this.#ears = undefined;
    this.#hears = false;
    await end?.();
  }
}
