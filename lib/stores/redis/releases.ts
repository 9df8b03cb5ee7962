import { randomBytes } from 'node:crypto';
import { afterTurn, clearTimeout, queueMicrotask, setTimeout } from '../../common/host.js';
import { Listeners } from '../listeners.js';
import type { RedisConnection, Subscriber } from './client.js';
import { OF_CLUSTER } from './scripts.js';

/**
 * Milliseconds for which the connection is kept after the last listener has gone, since hand-overs often follow each
 * other.
 */
const LINGER = 1000;
/** The most keys that are remembered because somebody waited for them. */
const REMEMBERED = 1000;

/**
 * Wakes those who wait in this store for a key when the key may be free: when its release was published, and when the
 * lease that they wait for expires. It wakes one at a time, in turn, so that thousands do not ask for what one of them
 * can have. The waiters' own polling finds what it misses.
 *
 * A release is published to one store, the one that has waited longest, on a channel of its own, and the key is kept
 * for it for a moment. If nobody waits there any more, that store passes the message on.
 */
export class Releases {
  readonly #connection: RedisConnection;
  readonly #channel: string;
  readonly #passOn: (lease: string) => void;
  readonly #keys = new Map<string, Listeners>();
  /**
   * Leases that were waited for while this store has a subscription: the first attempt at such a key registers the
   * store as a waiter.
   */
  readonly #lately = new Set<string>();
  /** How many pending attempts register this store as a waiter, by lease. */
  readonly #attempts = new Map<string, number>();
  /** Leases whose release was heard of before such an attempt, which uses another connection, was answered. */
  readonly #early = new Set<string>();
  #subscriber: Subscriber | undefined;
  /** Rejects if the store cannot subscribe. */
  #subscribed: Promise<unknown> | undefined;
  #hears = false;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  /** `passOn`: called for a release that nobody here waits for any more. */
  constructor(connection: RedisConnection, prefix: string, passOn: (lease: string, channel: string) => void) {
    this.#connection = connection;
    const name = randomBytes(12).toString('base64url');
    this.#channel = `${prefix}waiter:${name}${connection.isCluster ? OF_CLUSTER : ''}`;
    this.#passOn = (lease) => passOn(lease, this.#channel);
  }

  /** Returns a function that ends it. */
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

  /**
   * The channel on which this store hears of the lease's release; undefined if nobody waits, or if it has no
   * subscription.
   */
  channelFor(lease: string): string | undefined {
    return this.#hears && (this.#keys.has(lease) || this.#lately.has(lease)) ? this.#channel : undefined;
  }

  /** An attempt is sent with that channel. Returns a function to call when it was answered or has failed. */
  attempt(lease: string): () => void {
    this.#attempts.set(lease, (this.#attempts.get(lease) ?? 0) + 1);
    return () => {
      const others = this.#attempts.get(lease)! - 1;
      if (others > 0) this.#attempts.set(lease, others);
      else this.#attempts.delete(lease);
      // An acquisition that was refused and now waits is listening by then.
      if (this.#early.has(lease)) afterTurn(() => this.#early.delete(lease) && this.#told(lease));
    };
  }

  /** The lease ends in so many milliseconds, unless it is renewed. */
  endsIn(lease: string, milliseconds: number): void {
    this.#keys.get(lease)?.wakeIn(milliseconds);
  }

  /** The lease was released, and nobody else was told. */
  wake(lease: string): void {
    this.#keys.get(lease)?.wake();
  }

  close(): void {
    this.#closed = true;
    for (const listeners of this.#keys.values()) listeners.close();
    this.#keys.clear();
    this.#disconnect();
  }

  /** Never rejects. The first waiter then asks again: the key may have been released before this store had subscribed. */
  async #subscribe(lease: string, listeners: Listeners): Promise<void> {
    if (!this.#connection.subscriber) return;
    let subscriber: Subscriber | undefined;
    try {
      subscriber = this.#subscriber ??= this.#connection.subscriber((name) => {
        this.#told(name.slice(this.#connection.keyPrefix.length));
      });
      this.#subscribed ??= subscriber.subscribe(this.#channel);
      await this.#subscribed;
      // It has been closed in the meantime.
      if (this.#subscriber !== subscriber) return;
      this.#hears = true;
      if (this.#lately.size >= REMEMBERED) this.#lately.clear();
      this.#lately.add(lease);
      listeners.wake();
    } catch {
      if (this.#subscriber === subscriber) this.#disconnect();
    }
  }

  /** The lease's release was published to this store. If it passes the message on, it sends that before any later attempt. */
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
    // Until then the connection keeps the process alive. The timer need not.
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
