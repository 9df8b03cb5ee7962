import { clearTimeout, queueMicrotask, setTimeout } from '../../common/host.js';
import { Listeners } from '../listeners.js';
import type { Connection, Hearing } from './connection.js';
import { topicOf } from './statements.js';

/** Milliseconds for which the session is kept after the last listener has gone, as hand-overs often follow each other. */
const LINGER = 1000;
/** Milliseconds until a lost session is opened again. */
const RETRY = 250;

/**
 * Wakes those who wait in this store for a key when it may be free: when its release is notified, and when the lease that
 * they wait for expires. It wakes one at a time, in turn. The waiters' own polling finds what it misses.
 *
 * The session that listens is open only while somebody waits.
 */
export class Releases {
  readonly #connection: Connection;
  readonly #channel: string;
  readonly #keys = new Map<string, Listeners>();
  /** By what is notified of a key. */
  readonly #topics = new Map<string, string>();
  #hearing: Hearing | undefined;
  #hears = false;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(connection: Connection, channel: string) {
    this.#connection = connection;
    this.#channel = channel;
  }

  /** Whether the store hears of releases that are notified. */
  get hears(): boolean {
    return this.#hears;
  }

  /** Whether somebody waits in this store. */
  isAwaited(key: string): boolean {
    return this.#keys.has(key);
  }

  /** Returns a function that ends it. */
  listen(key: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    const known = this.#keys.get(key);
    const listeners = known ?? new Listeners();
    listeners.all.add(listener);
    if (!known) {
      this.#keys.set(key, listeners);
      this.#topics.set(topicOf(key), key);
      this.#open();
      // It was refused before it listened: it asks again, so that its wait is marked.
      if (this.#hears) queueMicrotask(() => listeners.wake());
    }
    return () => this.#leave(key, listeners, listener);
  }

  /**
   * Another has the lease for so many milliseconds. If `marked` is false although this store hears, the row has changed
   * meanwhile: nobody will be notified, so the waiter asks again.
   */
  refused(key: string, milliseconds: number, marked: boolean): void {
    const listeners = this.#keys.get(key);
    listeners?.wakeIn(this.#hears && !marked ? 0 : milliseconds);
  }

  /** The lease was released, and nobody was notified. */
  wake(key: string): void {
    this.#keys.get(key)?.wake();
  }

  close(): void {
    this.#closed = true;
    for (const listeners of this.#keys.values()) listeners.close();
    this.#keys.clear();
    this.#topics.clear();
    this.#disconnect();
  }

  #open(): void {
    clearTimeout(this.#timer);
    if (this.#hearing) return;
    const hearing = this.#connection.listen(
      this.#channel,
      (topic) => this.wake(this.#topics.get(topic) ?? ''),
      () => this.#begins(hearing),
      () => this.#lost(hearing),
    );
    this.#hearing = hearing;
  }

  /** Keys may have been released before: the first waiter of each asks again. */
  #begins(hearing: Hearing): void {
    if (this.#hearing !== hearing) return;
    this.#hears = true;
    for (const listeners of this.#keys.values()) listeners.wake();
  }

  /** Until it hears again, waiters poll. */
  #lost(hearing: Hearing): void {
    if (this.#hearing !== hearing) return;
    this.#disconnect();
    if (this.#keys.size > 0) this.#timer = setTimeout(() => this.#open(), RETRY).unref();
  }

  #leave(key: string, listeners: Listeners, listener: () => void): void {
    listeners.all.delete(listener);
    if (listeners.all.size > 0 || this.#keys.get(key) !== listeners) return;
    listeners.close();
    this.#keys.delete(key);
    this.#topics.delete(topicOf(key));
    if (this.#keys.size > 0) return;
    // Until then the session keeps the process alive. The timer need not.
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#disconnect(), LINGER).unref();
  }

  #disconnect(): void {
    clearTimeout(this.#timer);
    const hearing = this.#hearing;
    this.#hearing = undefined;
    this.#hears = false;
    hearing?.close();
  }
}
