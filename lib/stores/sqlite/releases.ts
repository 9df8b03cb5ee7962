import { timerNow } from '../../common/elapsed.js';
import { clearTimeout, setTimeout } from '../../common/host.js';
import { Listeners } from '../wakers.js';
import type { LeaseRows } from './lease-rows.js';

/** Milliseconds between looks: when somebody has just begun to wait, and at most. The pause doubles from look to look. */
const FIRST_PAUSE = 4;
const LONGEST_PAUSE = 64;
/**
 * Milliseconds for which those who wait in this store pass a key on among themselves before it is the turn of another
 * store. That is far quicker than to wait for the next look of another process.
 */
const TURN = 50;

/** Those who wait in this store for one key. */
class LocalWaiters extends Listeners {
  /** Since when this store has had the key; undefined while it has not, or when its turn is over. */
  since: number | undefined;
}

/**
 * Wakes those who wait in this store for a key when they should ask again. SQLite notifies nobody, so the store looks
 * while somebody waits, with one query for all keys: at the leases, which may have ended, and at the records of its
 * waits. A record is gone when a release has left the key to this store.
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

  /** Whether somebody waits in this store. */
  readonly isAwaited = (key: string): boolean => this.#keys.has(key);

  /** Returns a function that ends it. */
  listen(key: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    let listeners = this.#keys.get(key);
    if (!listeners) this.#keys.set(key, (listeners = new LocalWaiters()));
    listeners.all.add(listener);
    this.#pause = FIRST_PAUSE;
    this.#timer ??= this.#nextLook();
    return () => this.#leave(key, listeners, listener);
  }

  /** This store was granted the key. */
  granted(key: string): void {
    const listeners = this.#keys.get(key);
    if (listeners) listeners.since ??= timerNow();
  }

  /** Whether a key that is released now stays in this store; else it is the turn of the first waiter of all. */
  readonly keeps = (key: string): boolean => {
    const listeners = this.#keys.get(key);
    if (listeners?.since === undefined) return false;
    if (timerNow() - listeners.since < TURN) return true;
    listeners.since = undefined;
    return false;
  };

  /** A lease of the key was released in this store. */
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
    this.#look();
  }

  #leave(key: string, listeners: LocalWaiters, listener: () => void): void {
    listeners.all.delete(listener);
    if (listeners.all.size > 0 || this.#keys.get(key) !== listeners) return;
    listeners.close();
    this.#keys.delete(key);
  }

  /** Once more after the last has left, for the records. The waiters keep the process alive, so this need not. */
  #nextLook(): NodeJS.Timeout {
    const pause = this.#pause;
    this.#pause = Math.min(2 * pause, LONGEST_PAUSE);
    return setTimeout(() => {
      this.#timer = this.#keys.size > 0 ? this.#nextLook() : undefined;
      this.#look();
    }, pause).unref();
  }

  #look(): void {
    const unrecorded = new Set(this.#keys.values());
    try {
      for (const { key, remaining } of this.#rows.recorded(this.isAwaited)) {
        const listeners = this.#keys.get(key);
        if (listeners === undefined) continue;
        unrecorded.delete(listeners);
        // Sooner than the next look, to the millisecond.
        if (remaining <= LONGEST_PAUSE) listeners.wakeIn(Math.max(Number(remaining), 0));
      }
    } catch {
      // The waiters' own attempts report it.
      return;
    }
    for (const listeners of unrecorded) listeners.wake();
  }
}
