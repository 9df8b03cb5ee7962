import { timerNow } from '../../common/elapsed.js';
import { clearTimeout, setTimeout } from '../../common/host.js';
import { Waiters } from '../wakers.js';
import type { LeaseRows } from './lease-rows.js';

/**
 * Milliseconds between polls. When a waiter arrives, the pause is reset to `FIRST_PAUSE`. After each poll,
 * the pause doubles, up to `LONGEST_PAUSE`.
 */
const FIRST_PAUSE = 4;
const LONGEST_PAUSE = 64;
/**
 * Milliseconds for which a store may pass a key from waiter to waiter before the key goes to another store. A
 * hand-over between waiters of one store is much faster than a hand-over to another process, because that
 * process first has to poll.
 */
const TURN = 50;

/** The waiters of this store for one key. */
class LocalWaiters extends Waiters {
  /**
   * The time of the grant with which this store's turn began. Undefined if the turn has ended, or has not
   * begun.
   */
  since: number | undefined;
}

/**
 * Wakes this store's waiters when they should retry. SQLite has no notifications, so the store polls while it
 * has waiters, with one query for all keys. The query returns the records of the keys for which this store
 * waits, and when the leases of these keys expire. If the record of a key is missing, a release may have
 * reserved the key for this store.
 */
export class Releases {
  readonly #rows: LeaseRows;
  readonly #keys = new Map<string, LocalWaiters>();
  #timer: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE;
  #closed = false;

  constructor(rows: LeaseRows) {
    this.#rows = rows;
  }

  /** Whether this store has a waiter for the key. */
  readonly isAwaited = (key: string): boolean => this.#keys.has(key);

  /** Adds a waiter. The returned function removes the waiter. */
  listen(key: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    let listeners = this.#keys.get(key);
    if (!listeners) this.#keys.set(key, (listeners = new LocalWaiters()));
    listeners.all.add(listener);
    this.#pause = FIRST_PAUSE;
    this.#timer ??= this.#schedulePoll();
    return () => this.#leave(key, listeners, listener);
  }

  /** Call when an attempt for the key was refused that may succeed after this time. */
  refused(key: string, milliseconds: number): void {
    this.#keys.get(key)?.wakeIn(milliseconds);
  }

  /** Call when this store was granted the key. */
  granted(key: string): void {
    const listeners = this.#keys.get(key);
    if (listeners) listeners.since ??= timerNow();
  }

  /**
   * Whether the waiters of this store may get a key that is released now. If not, the key goes to the first
   * waiting store.
   */
  readonly keeps = (key: string): boolean => {
    const listeners = this.#keys.get(key);
    if (listeners?.since === undefined) return false;
    if (timerNow() - listeners.since < TURN) return true;
    listeners.since = undefined;
    return false;
  };

  /** Call after a release through this store. */
  wake(key: string): void {
    this.#keys.get(key)?.wake();
  }

  close(): void {
    this.#closed = true;
    for (const listeners of this.#keys.values()) listeners.close();
    this.#keys.clear();
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#poll();
  }

  #leave(key: string, listeners: LocalWaiters, listener: () => void): void {
    listeners.all.delete(listener);
    if (listeners.all.size > 0 || this.#keys.get(key) !== listeners) return;
    listeners.close();
    this.#keys.delete(key);
  }

  /**
   * Schedules the next poll. After the last waiter has left, one more poll deletes the store's records. The
   * timer need not keep the process alive, because the waiters do.
   */
  #schedulePoll(): NodeJS.Timeout {
    const pause = this.#pause;
    this.#pause = Math.min(2 * pause, LONGEST_PAUSE);
    return setTimeout(() => {
      this.#timer = this.#keys.size > 0 ? this.#schedulePoll() : undefined;
      this.#poll();
    }, pause).unref();
  }

  #poll(): void {
    const unrecorded = new Set(this.#keys.values());
    try {
      for (const { key, remaining } of this.#rows.recorded(this.isAwaited)) {
        const listeners = this.#keys.get(key);
        if (listeners === undefined) continue;
        unrecorded.delete(listeners);
        // The lease may expire before the next poll, so a timer wakes a waiter on time.
        if (remaining <= LONGEST_PAUSE) listeners.wakeIn(Math.max(Number(remaining), 0));
      }
    } catch {
      // The waiters' own attempts report the error.
      return;
    }
    for (const listeners of unrecorded) listeners.wake();
  }
}
