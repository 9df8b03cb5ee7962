import { randomBytes } from 'node:crypto';
import type { RedisConnection, Subscriber } from './client.js';
import { OF_CLUSTER } from './scripts.js';

/** Milliseconds that the connection is kept when nobody listens any more: hand-overs come one after the other. */
const LINGER = 1000;
/** Keys that were waited for while it was kept, at most. */
const REMEMBERED = 1000;

/**
 * Who waits in this store for a key to become free, and is to ask again when it may be: when its release was published,
 * and when the time of the lease that was in the way is over. One at a time, in turn, so that thousands do not ask for
 * what one of them can have. What is missed, the waiters' own polling finds.
 *
 * A release is published to one store, the one that has waited longest, on a channel of its own, and the key is kept for
 * it for a moment. Where nobody waits for it there any more, it passes the news on.
 */
export class Releases {
  readonly #connection: RedisConnection;
  readonly #channel: string;
  readonly #passOn: (lease: string) => void;
  readonly #keys = new Map<string, Listeners>();
  /** Waited for since it hears: the first attempt at such a key has put this store down to be told already. */
  readonly #lately = new Set<string>();
  /** Attempts under way that put this store down to be told, by lease. */
  readonly #attempts = new Map<string, number>();
  /** Told before the answer to such an attempt came, which is on another connection. */
  readonly #early = new Set<string>();
  #subscriber: Subscriber | undefined;
  /** Rejects if it cannot hear. */
  #subscribed: Promise<unknown> | undefined;
  #hears = false;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  /** `passOn`: what to do with the news of a release that nobody here waits for any more. */
  constructor(connection: RedisConnection, prefix: string, passOn: (lease: string, channel: string) => void) {
    this.#connection = connection;
    const name = randomBytes(12).toString('base64url');
    this.#channel = `${prefix}waiter:${name}${connection.isCluster ? OF_CLUSTER : ''}`;
    this.#passOn = (lease) => passOn(lease, this.#channel);
  }

  /** Returns how to end it. */
  listen(lease: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    let listeners = this.#keys.get(lease);
    if (!listeners) {
      listeners = new Listeners();
      this.#keys.set(lease, listeners);
      clearTimeout(this.#idle);
      if (!this.#lately.has(lease)) void this.#subscribe(lease, listeners);
    }
    listeners.all.add(listener);
    if (this.#early.delete(lease)) queueMicrotask(() => listeners.wake());
    return () => this.#leave(lease, listeners, listener);
  }

  /** On what this store would hear of the lease's release; undefined where nobody waits for that, or it cannot hear. */
  channelFor(lease: string): string | undefined {
    return this.#hears && (this.#keys.has(lease) || this.#lately.has(lease)) ? this.#channel : undefined;
  }

  /** An attempt is sent with that channel. Returns what to call when it was answered, or failed. */
  attempt(lease: string): () => void {
    this.#attempts.set(lease, (this.#attempts.get(lease) ?? 0) + 1);
    return () => {
      const others = this.#attempts.get(lease)! - 1;
      if (others > 0) this.#attempts.set(lease, others);
      else this.#attempts.delete(lease);
      // Whoever asked listens by then, if he waits.
      if (this.#early.has(lease)) setImmediate(() => this.#early.delete(lease) && this.#told(lease));
    };
  }

  /** The lease ends in so many milliseconds, unless it is renewed. */
  endsIn(lease: string, milliseconds: number): void {
    this.#keys.get(lease)?.wakeIn(milliseconds);
  }

  /** It was released, and nobody else was told. */
  wake(lease: string): void {
    this.#keys.get(lease)?.wake();
  }

  close(): void {
    this.#closed = true;
    for (const listeners of this.#keys.values()) listeners.close();
    this.#keys.clear();
    this.#disconnect();
  }

  /** Never rejects. The first then asks again: only who hears can be told, and it may have been released since. */
  async #subscribe(lease: string, listeners: Listeners): Promise<void> {
    if (!this.#connection.subscriber) return;
    let subscriber: Subscriber | undefined;
    try {
      subscriber = this.#subscriber ??= this.#connection.subscriber((name) => {
        this.#told(name.slice(this.#connection.keyPrefix.length));
      });
      this.#subscribed ??= subscriber.subscribe(this.#channel);
      await this.#subscribed;
      // It was closed meanwhile.
      if (this.#subscriber !== subscriber) return;
      this.#hears = true;
      if (this.#lately.size >= REMEMBERED) this.#lately.clear();
      this.#lately.add(lease);
      listeners.wake();
    } catch {
      if (this.#subscriber === subscriber) this.#disconnect();
    }
  }

  /** What is passed on is sent before any later attempt. */
  #told(lease: string): void {
    const listeners = this.#keys.get(lease);
    if (listeners) listeners.wake();
    else if (this.#attempts.has(lease)) this.#early.add(lease);
    else this.#passOn(lease);
  }

  #leave(lease: string, listeners: Listeners, listener: () => void): void {
    listeners.all.delete(listener);
    if (listeners.all.size > 0 || this.#keys.get(lease) !== listeners) return;
    listeners.close();
    this.#keys.delete(lease);
    if (this.#keys.size > 0) return;
    // The connection keeps the process alive until then; the timer need not.
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#disconnect(), LINGER).unref();
  }

  #disconnect(): void {
    clearTimeout(this.#idle);
    this.#subscriber?.close();
    this.#subscriber = undefined;
    this.#subscribed = undefined;
    this.#hears = false;
    this.#lately.clear();
  }
}

class Listeners {
  /** In the order of their turns. */
  readonly all = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  /** Whoever is woken goes to the end: it may not come, or not get it. */
  wake(): void {
    const [first] = this.all;
    if (!first) return;
    this.all.delete(first);
    this.all.add(first);
    first();
  }

  wakeIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    // Longer ones than a timer can wait for are no matter here: polling comes first.
    this.#timer = setTimeout(() => this.wake(), Math.min(milliseconds, 2 ** 31 - 1)).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.all.clear();
  }
}
