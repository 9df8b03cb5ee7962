import type { RedisConnection, Subscriber } from './client.js';

/** Milliseconds that the connection is kept when nobody listens any more: hand-overs come one after the other. */
const LINGER = 1000;

/**
 * Who waits for a key to become free, and is to ask again when it may be: when its release was published, and when the
 * time of the lease that was in the way is over. One of those who wait in this process at a time, in turn, so that
 * thousands do not ask for what one of them can have. What is missed, the waiters' own polling finds.
 */
export class Releases {
  readonly #connection: RedisConnection;
  readonly #channels = new Map<string, Channel>();
  #subscriber: Promise<Subscriber> | undefined;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(connection: RedisConnection) {
    this.#connection = connection;
  }

  /** Returns how to end it. */
  listen(name: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    let channel = this.#channels.get(name);
    if (!channel) {
      channel = new Channel();
      this.#channels.set(name, channel);
      void this.#subscribe(name, channel);
    }
    channel.listeners.add(listener);
    return () => this.#leave(name, channel, listener);
  }

  /** The lease of that key ends in so many milliseconds, unless it is renewed. */
  endsIn(name: string, milliseconds: number): void {
    this.#channels.get(name)?.wakeIn(milliseconds);
  }

  close(): void {
    this.#closed = true;
    for (const channel of this.#channels.values()) channel.close();
    this.#channels.clear();
    this.#disconnect();
  }

  /** Never rejects. */
  async #subscribe(name: string, channel: Channel): Promise<void> {
    const { keyPrefix } = this.#connection;
    if (!this.#connection.subscriber) return;
    clearTimeout(this.#idle);
    try {
      this.#subscriber ??= this.#connection.subscriber((heard) => {
        this.#channels.get(heard.slice(keyPrefix.length))?.wake();
      });
      const subscriber = await this.#subscriber;
      if (this.#channels.get(name) !== channel) return;
      await subscriber.subscribe(keyPrefix + name);
      // It may have been released before there was anybody to hear it.
      channel.wake();
    } catch {
      this.#disconnect();
    }
  }

  #leave(name: string, channel: Channel, listener: () => void): void {
    channel.listeners.delete(listener);
    if (channel.listeners.size > 0 || this.#channels.get(name) !== channel) return;
    channel.close();
    this.#channels.delete(name);
    void this.#unsubscribe(name);
    if (this.#channels.size > 0) return;
    // The connection keeps the process alive until then; the timer need not.
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#disconnect(), LINGER).unref();
  }

  /** Never rejects. */
  async #unsubscribe(name: string): Promise<void> {
    try {
      const subscriber = await this.#subscriber;
      // Unless somebody listens again.
      if (!this.#channels.has(name)) await subscriber?.unsubscribe(this.#connection.keyPrefix + name);
    } catch {
      // A connection that is lost has no subscriptions.
    }
  }

  #disconnect(): void {
    clearTimeout(this.#idle);
    this.#subscriber?.then((subscriber) => subscriber.close()).catch(() => undefined);
    this.#subscriber = undefined;
  }
}

class Channel {
  /** In the order of their turns. */
  readonly listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  /** Whoever is woken goes to the end: it may not come, or not get it. */
  wake(): void {
    const [first] = this.listeners;
    if (!first) return;
    this.listeners.delete(first);
    this.listeners.add(first);
    first();
  }

  wakeIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    // Longer ones than a timer can wait for are no matter here: polling comes first.
    this.#timer = setTimeout(() => this.wake(), Math.min(milliseconds, 2 ** 31 - 1)).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.listeners.clear();
  }
}
